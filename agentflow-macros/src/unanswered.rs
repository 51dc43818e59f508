//! Reads `on_timeout = ..`, which says what happens to a question that nobody has answered in time. Where it may stand is
//! left to each attribute.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprCall};

use crate::errors::{Errors, nearest};

/// What happens to a question that nobody has answered in time.
pub(crate) enum Unanswered {
    /// A variant of `OnTimeout`.
    Word(Ident),
    /// A value of the type that a gate asks for.
    Answer(Box<Expr>),
}

const WORDS: [(&str, &str); 4] = [("fail", "Fail"), ("skip", "Skip"), ("deny", "Deny"), ("approve", "Approve")];

impl Unanswered {
    /// Reads the value of the option. A wrong one is reported.
    pub(crate) fn read(expr: &Expr, errors: &mut Errors) -> Option<Self> {
        if let Expr::Call(ExprCall { func, args, .. }) = expr
            && func.to_token_stream().to_string() == "answer"
            && let [answer] = &args.iter().collect::<Vec<_>>()[..]
        {
            return Some(Self::Answer(Box::new(Expr::clone(answer))));
        }
        let wrong = expr.to_token_stream().to_string();
        let found = WORDS.iter().find(|(word, _)| *word == wrong);
        if found.is_none() {
            let names = WORDS.iter().map(|(word, _)| *word);
            let hint = nearest(&wrong, names).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            errors.at(
                expr,
                format!("`on_timeout` is `fail`, `skip`, `deny` or `approve`, or `answer(..)` of a gate{hint}"),
            );
        }
        found.map(|(_, variant)| Self::Word(Ident::new(variant, Span::call_site())))
    }

    /// As an `OnTimeout`; an answer is of the type that is asked for.
    pub(crate) fn expand(&self, private: &TokenStream, asked: &TokenStream) -> TokenStream {
        match self {
            Self::Word(variant) => quote!(#private::OnTimeout::#variant),
            Self::Answer(answer) => {
                // So that an error about its type is reported at the value.
                quote_spanned!(answer.span()=> #private::OnTimeout::answer::<#asked>(&#answer))
            }
        }
    }
}
