//! Generates a gate: its question with the values that it shows, and the type of the answer.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Type};

use super::env::Env;
use super::model::Node;
use super::nodes::Writer;
use super::syntax::plain;
use crate::errors::Errors;
use crate::placeholders::{FieldPath, Part, parts};
use crate::scope;

impl Writer<'_> {
    pub(super) fn gate(
        &mut self,
        node: &Node,
        (question, payload, answer): (&Expr, Option<&Expr>, Option<&Type>),
        env: &mut Env,
    ) -> TokenStream {
        let span = node.span;
        let (private, steps) = self.at(span);
        // Written as a `format!`, so that the names in the text are found.
        let asked: Expr = match text(question) {
            Some(text) => {
                let (text, shown) = shown(text, self.errors);
                syn::parse_quote_spanned!(question.span()=> #private::format!(#text #shown))
            }
            None => syn::parse_quote_spanned!(question.span()=> #private::format!("{}", #question)),
        };
        let mut names = scope::names_read_by_expr(&asked);
        names.extend(payload.into_iter().flat_map(scope::names_read_by_expr));
        let opened = self.open_pure(&names, env, span);
        let mut meta = self.meta(node, &[question, &payload, &answer], env);
        let shown = [&asked].into_iter().chain(payload).collect::<Vec<_>>();
        let (asking, place) = self.place_of_value(&shown, env);
        meta.extend(place.method);
        let (first, asked) = (&place.first, &asking[0]);
        let at = span.resolved_at(Span::mixed_site());
        let about = asking.get(1).map_or_else(|| quote!(()), |payload| quote!(#payload));
        let about_type =
            payload.map_or_else(|| quote!(()), |payload| quote_spanned!(payload.span()=> _));
        let answer = answer.map_or_else(|| quote!(#private::Approval), |answer| quote!(#answer));
        let unanswered = node
            .policy
            .on_timeout
            .as_ref()
            .map(|(_, unanswered)| unanswered.expand(&private, &answer));
        let unanswered = unanswered.map(|unanswered| quote!(.on_timeout(#unanswered)));
        let end = quote_spanned! {at=>
            #first
            #private::Ok::<(#private::String, #about_type), __AgentflowError>((#asked, #about))
        };
        let closure = self.pure(&opened, &end, at);
        let reads = &opened.reads;
        let gate = quote_spanned!(at=> #steps.gate::<_, #about_type, #answer, _>(#meta #unanswered, #reads, #closure));
        place.declared.in_front_of(gate)
    }
}

fn text(question: &Expr) -> Option<&syn::LitStr> {
    match plain(question) {
        Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text),
        _ => None,
    }
}

/// Replaces each path in the text of a question, such as `{order.id}`, by a name. Returns the text
/// and the `format!` arguments for these names.
fn shown(text: &syn::LitStr, errors: &mut Errors) -> (syn::LitStr, TokenStream) {
    let (whole, mut written, mut shown) = (text.value(), String::new(), TokenStream::new());
    for part in parts(&whole) {
        match part {
            Part::Text(text) => written.push_str(&text.replace('{', "{{").replace('}', "}}")),
            Part::Placeholder(inside) => {
                let (path, form) = inside
                    .split_once(':')
                    .map_or((inside, None), |(path, form)| (path, Some(form)));
                let form = form.map_or_else(String::new, |form| format!(":{form}"));
                if !path.contains('.') {
                    written.push_str(&format!("{{{path}{form}}}"));
                    continue;
                }
                match FieldPath::read(path.trim(), text.span()) {
                    Ok(FieldPath { name, fields }) => {
                        let variable = Ident::new(name, text.span());
                        let shows = Ident::new(
                            &format!("agentflow_{}", path.trim().replace('.', "_")),
                            text.span(),
                        );
                        written.push_str(&format!("{{{shows}{form}}}"));
                        if !shown.to_string().contains(&format!("{shows} =")) {
                            shown.extend(quote!(, #shows = #variable #(.#fields)*));
                        }
                    }
                    Err(message) => errors.at(text, message),
                }
            }
            Part::Wrong(message) => errors.at(text, message),
        }
    }
    match shown.is_empty() {
        // The original literal, so that the compiler reports mistakes in it at their positions.
        true => (text.clone(), shown),
        false => (syn::LitStr::new(&written, text.span()), shown),
    }
}
