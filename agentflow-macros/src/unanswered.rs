//! Parses `on_timeout = ..`, the action for a question that was not answered in time. Each
//! attribute checks where the option is allowed.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, ExprCall};

use crate::errors::{Errors, nearest};

/// The action for a question that was not answered in time.
pub(crate) enum TimeoutAction {
    /// A variant of `OnTimeout`.
    Word(Ident),
    /// A value of the type that the gate expects.
    Answer(Box<Expr>),
}

const WORDS: [(&str, &str); 4] =
    [("fail", "Fail"), ("skip", "Skip"), ("deny", "Deny"), ("approve", "Approve")];

impl TimeoutAction {
    /// Parses the value of the option and reports an invalid one.
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
            let hint = nearest(&wrong, names)
                .map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            errors.at(
                expr,
                format!("`on_timeout` is `fail`, `skip`, `deny` or `approve`, or `answer(..)` of a gate{hint}"),
            );
        }
        found.map(|(_, variant)| Self::Word(Ident::new(variant, Span::call_site())))
    }

    /// Generates the action as an `OnTimeout`. `asked` is the type of the expected answer.
    pub(crate) fn expand(&self, private: &TokenStream, asked: &TokenStream) -> TokenStream {
        match self {
            Self::Word(variant) => quote!(#private::OnTimeout::#variant),
            Self::Answer(answer) => {
                // With this span, an error about the type is reported at the value.
                quote_spanned!(answer.span()=> #private::OnTimeout::answer::<#asked>(&#answer))
            }
        }
    }
}
