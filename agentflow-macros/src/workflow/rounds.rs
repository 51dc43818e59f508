//! Generates the forms that repeat a step or choose among steps: `map!`, `for`, `repeat!`, `race!`,
//! `fallback!`. The steps of a body become nodes below the node of the form.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, Pat, Token, Type};

use super::calls;
use super::env::{self, Env, nested};
use super::model::{Borrowed, Branch, BranchBody, Items, Lambda, LambdaBody, Node, Seq};
use super::nodes::{Ending, Writer};
use super::places::AnswerVariables;
use super::spans::own;
use crate::{patterns, scope};

impl Writer<'_> {
    pub(super) fn map(
        &mut self,
        node: &Node,
        items: &Items,
        step: &Lambda,
        env: &mut Env,
    ) -> TokenStream {
        let list = self.list(node, items, env);
        let borrowed = items.borrowed;
        let mapped = match &step.step {
            LambdaBody::Future(expr) => {
                let span = expr.span().resolved_at(Span::mixed_site());
                let out = quote_spanned!(expr.span()=> _);
                let (reads, closure, meta, declared) =
                    self.round(node, expr, &step.pat, borrowed, &out, &[&items.expr], env);
                let (all, steps) = (own("items", span), own("steps", span));
                declared
                    .in_front_of(quote_spanned!(span=> #steps.map::<_, _, #out, _, _>(#meta, #all, #reads, #closure)))
            }
            LambdaBody::Seq(seq) => {
                let (reads, closure) = self.inner(Some((&step.pat, borrowed)), seq, env);
                let meta =
                    self.meta(node, &[&items.expr, &step.pat, &borrowed_mark(borrowed)], env);
                let at = node.span.resolved_at(Span::mixed_site());
                let (all, steps) = (own("items", at), own("steps", at));
                quote_spanned!(at=> #steps.map_body(#meta, #all, #reads, #closure))
            }
        };
        let mapped = self.of_type(mapped, node.ty.as_ref());
        let all = own("items", node.span);
        quote!({ let #all = #list; #mapped })
    }

    pub(super) fn for_each(
        &mut self,
        node: &Node,
        items: &Items,
        pat: &Pat,
        body: &Seq,
        env: &mut Env,
    ) -> TokenStream {
        let list = self.list(node, items, env);
        let (reads, closure) = self.inner(Some((pat, items.borrowed)), body, env);
        let meta = self.meta(node, &[&items.expr, pat, &borrowed_mark(items.borrowed)], env);
        let at = node.span.resolved_at(Span::mixed_site());
        let (all, steps) = (own("items", at), own("steps", at));
        quote_spanned!(at=> { let #all = #list; #steps.for_each(#meta, #all, #reads, #closure) })
    }

    /// Generates the handle of the list: an existing output, or a node that computes the list once.
    fn list(&mut self, node: &Node, items: &Items, env: &mut Env) -> TokenStream {
        let expr = &items.expr;
        let (private, steps) = self.at(expr.span());
        let span = expr.span().resolved_at(Span::mixed_site());
        // The list is already an output, so no node has to compute it.
        if let Some(handle) = env::as_name(expr).and_then(|name| env.read_output(&name)) {
            let meta = self.part(node, "items", expr, env);
            return quote_spanned!(span=> #steps.items(#meta, #handle));
        }
        let opened = self.open_pure(&scope::names_read_by_expr(expr), env, expr.span());
        let mut meta = self.part(node, "items", expr, env);
        let (asking, place) = self.place_of_value(&[expr], env);
        meta.extend(place.method);
        let (first, asking) = (&place.first, &asking[0]);
        let end = quote_spanned! {span=>
            #first
            #private::Ok::<#private::Vec<_>, __AgentflowError>(
                #private::Iterator::collect(#private::IntoIterator::into_iter(#asking))
            )
        };
        let closure = self.pure(&opened, &end, span);
        let reads = &opened.reads;
        place.declared.in_front_of(quote_spanned!(span=> #steps.value(#meta, #reads, #closure)))
    }

    pub(super) fn repeat(
        &mut self,
        node: &Node,
        (first, step, until, max): (&Expr, &Lambda, Option<&Expr>, &Expr),
        env: &mut Env,
    ) -> TokenStream {
        let (private, steps) = self.at(first.span());
        let span = first.span().resolved_at(Span::mixed_site());
        let begin = match env::as_name(first).and_then(|name| env.read_output(&name)) {
            Some(handle) => quote!(#handle),
            None => {
                let opened = self.open_pure(&scope::names_read_by_expr(first), env, first.span());
                let mut meta = self.part(node, "first", first, env);
                let (asking, place) = self.place_of_value(&[first], env);
                meta.extend(place.method);
                let (before, asking) = (&place.first, &asking[0]);
                let end =
                    quote_spanned!(span=> #before #private::Ok::<_, __AgentflowError>(#asking));
                let closure = self.pure(&opened, &end, span);
                let reads = &opened.reads;
                place
                    .declared
                    .in_front_of(quote_spanned!(span=> #steps.value(#meta, #reads, #closure)))
            }
        };
        // The library calls `until` with the output of a round and with no other values.
        for name in
            until.into_iter().flat_map(scope::names_read_by_expr).filter(|name| env.is_local(name))
        {
            let message =
                format!("`until` sees only the output of a round; return `{name}` as a part of it");
            self.errors.at(until, message);
        }
        let ends = until.map_or_else(|| quote!(#private::never()), |until| quote!(#until));
        let at = node.span.resolved_at(Span::mixed_site());
        let repeated = match &step.step {
            LambdaBody::Future(expr) => {
                let out = quote_spanned!(expr.span()=> _);
                let also: [&dyn ToTokens; 3] = [&first, &until, &max];
                let (reads, closure, meta, declared) =
                    self.round(node, expr, &step.pat, Borrowed::No, &out, &also, env);
                let span = expr.span().resolved_at(Span::mixed_site());
                let (first, steps) = (own("first", span), own("steps", span));
                declared
                    .in_front_of(quote_spanned!(span=> #steps.repeat(#meta, #first, #reads, (#max, #ends), #closure)))
            }
            LambdaBody::Seq(seq) => {
                let (reads, closure) = self.inner(Some((&step.pat, Borrowed::No)), seq, env);
                let meta = self.meta(node, &[&first, &until, &max, &step.pat], env);
                let (first, steps) = (own("first", at), own("steps", at));
                quote_spanned!(at=> #steps.repeat_body(#meta, #first, #reads, (#max, #ends), #closure))
            }
        };
        let begin = self.of_type(begin, node.ty.as_ref());
        let first = own("first", node.span);
        quote!({ let #first = #begin; #repeated })
    }

    pub(super) fn branches(
        &mut self,
        node: &Node,
        branches: &[Branch],
        form: &str,
        ty: &TokenStream,
        env: &mut Env,
    ) -> TokenStream {
        let form = own(form, node.span);
        let (private, steps) = self.at(node.span);
        let all = own("branches", node.span);
        let mut written = quote!(let #all = #private::branches::<#ty>(););
        let mut code: Vec<TokenStream> = Vec::new();
        let calls: Vec<(&Expr, bool)> =
            branches.iter().filter_map(|branch| branch.call()).collect();
        let (asking, place) = self.place_of_step(&calls, env);
        let mut asking = asking.iter();
        for branch in branches {
            let (name, span) = (&branch.name, branch.span.resolved_at(Span::mixed_site()));
            let ((private, steps), all, one) =
                (self.at(span), own("branches", span), own("branch", span));
            let made = match &branch.step {
                BranchBody::Future(expr) | BranchBody::Whole(expr) => {
                    code.push(expr.to_token_stream());
                    let opened = self.open(&scope::names_read_by_expr(expr), env);
                    let out = quote_spanned!(span=> _);
                    let future = matches!(branch.step, BranchBody::Future(_));
                    let mut calls = calls::asking(expr, asking.next().unwrap_or(expr), env);
                    calls.first.clone_from(&place.first);
                    let ending = Ending { future, wrapped: false, bound: false, ty: &out };
                    let closure = self.body(&calls, &opened, &ending, None, expr.span());
                    let reads = &opened.reads;
                    quote_spanned!(span=> #steps.branch::<_, #out, _, _>(#name, #reads, #closure))
                }
                BranchBody::Seq(seq) => {
                    let (reads, closure) = self.inner(None, seq, env);
                    quote_spanned!(span=> #steps.branch_body(#name, #reads, #closure))
                }
            };
            written.extend(quote_spanned! {span=>
                let #one = #made;
                let #all = #private::Branches::branch(#all, #one);
            });
        }
        let code: Vec<&dyn ToTokens> = code.iter().map(|code| code as &dyn ToTokens).collect();
        let mut meta = self.meta(node, &code, env);
        meta.extend(place.method);
        place.declared.in_front_of(quote!({ #written #steps.#form(#meta, #all) }))
    }

    /// Generates a step for one item or round: its reads, its closure, and the node's metadata.
    #[expect(clippy::too_many_arguments, reason = "a step, what it binds and its surroundings")]
    fn round(
        &mut self,
        node: &Node,
        expr: &Expr,
        pat: &Pat,
        borrowed: Borrowed,
        out: &TokenStream,
        also: &[&dyn ToTokens],
        env: &mut Env,
    ) -> (TokenStream, TokenStream, TokenStream, AnswerVariables) {
        let bound: Vec<String> =
            patterns::names(pat).iter().map(|ident| ident.unraw().to_string()).collect();
        let mut names = scope::names_read_by_expr(expr);
        names.retain(|name| !bound.contains(name));
        let opened = self.open(&names, env);
        // The variables of the closure belong to the code, so the fingerprint does not depend on
        // their names.
        let closure: Expr = syn::parse_quote!(|#pat| #expr);
        let mark = borrowed_mark(borrowed);
        let mut code: Vec<&dyn ToTokens> = vec![&closure, &mark];
        code.extend(also);
        let mut meta = self.meta(node, &code, env);
        // The bindings of the closure are visible only while its expression is analyzed.
        let shadowed = env.enter();
        for name in patterns::names(pat) {
            env.output(Some(name.clone()), name, "");
        }
        let (asking, place) = self.place_of_step(&[(expr, true)], env);
        let mut calls = calls::asking(expr, &asking[0], env);
        calls.first = place.first;
        meta.extend(place.method);
        env.leave(shadowed);
        if let Some(text) = &calls.direct {
            meta.extend(quote!(.direct().text(#text)));
        }
        let one = own("item", expr.span());
        let value = borrowed.write_item(&one);
        let item = quote!(let #pat = #value;);
        let ending = Ending { future: true, wrapped: false, bound: false, ty: out };
        let closure = self.body(&calls, &opened, &ending, Some(&item), expr.span());
        (opened.reads, closure, meta, place.declared)
    }

    /// Generates a body of several steps: its reads from outside, and a closure that adds its
    /// nodes. `item` is the pattern of its input and how the input is borrowed.
    fn inner(
        &mut self,
        item: Option<(&Pat, Borrowed)>,
        seq: &Seq,
        env: &mut Env,
    ) -> (TokenStream, TokenStream) {
        // Outputs that have more readers afterwards are the reads of the body.
        let before = env.readers();
        let outside = env.enter();
        let given = item.map(|(pat, borrowed)| match pat {
            Pat::Ident(pat) if pat.subpat.is_none() && borrowed == Borrowed::No => {
                let variable = env.variable(&pat.ident, false);
                env.output(Some(pat.ident.clone()), variable.clone(), "item");
                variable
            }
            pat => {
                let variable = env.hidden("item");
                env.output(None, variable.clone(), "item");
                env.pattern(&[], pat, &variable, borrowed);
                variable
            }
        });
        let nodes = self.seq(seq, env, outside);
        env.leave(outside);
        let reads = env.read_since(&before);
        let tuple = nested(&reads, &|part| quote!((#(#part,)*)), self.private);
        let pattern = nested(&reads, &|part| quote!((#(#part,)*)), self.private);
        let steps = own("steps", Span::call_site());
        let given = given.map(|variable| quote!(#variable,));
        let closure = quote! {
            |#steps, #given #pattern| { #nodes }
        };
        (tuple, closure)
    }

    /// Generates the metadata of a node that prepares another one, such as `notes.items`.
    fn part(&mut self, node: &Node, part: &str, code: &Expr, env: &Env) -> TokenStream {
        let private = self.private;
        let name = format!("{}.{part}", node.name);
        let line = self.line(code.span());
        let code = super::code::fingerprint(&[code], env);
        quote!(#private::Node::new(#name).line(#line).code(#code))
    }

    /// Generates the handle with the type annotation of the user.
    fn of_type(&self, handle: TokenStream, ty: Option<&Type>) -> TokenStream {
        match ty {
            Some(ty) => {
                let (private, _) = self.at(ty.span());
                quote!(#private::of_type::<#ty>(#handle))
            }
            None => handle,
        }
    }
}

/// Appends `.await` to an expression, with parentheses if they are needed.
pub(super) fn awaited(expr: &Expr) -> TokenStream {
    let at = expr.span().resolved_at(Span::mixed_site());
    let base = Box::new(expr.clone());
    let (dot_token, await_token) = (Token![.](at), Token![await](at));
    Expr::Await(syn::ExprAwait { attrs: Vec::new(), base, dot_token, await_token })
        .into_token_stream()
}

impl Branch {
    /// Returns the expression of a branch that is not a block, and `true` if it is a future.
    fn call(&self) -> Option<(&Expr, bool)> {
        match &self.step {
            BranchBody::Future(expr) => Some((expr, true)),
            BranchBody::Whole(expr) => Some((expr, false)),
            BranchBody::Seq(_) => None,
        }
    }
}

/// Returns a mark for the fingerprint that shows how items are borrowed.
fn borrowed_mark(borrowed: Borrowed) -> TokenStream {
    match borrowed {
        Borrowed::No => quote!(),
        Borrowed::Whole => quote!(&),
        Borrowed::Second => quote!(&&),
    }
}
