//! Writes one node: a call of the builder with the handles that it reads and a closure with the user's expression. Routers
//! are in `route`, calls of known functions in `callee`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, Pat, Type};

use super::callee::{self, KnownCall};
use super::env::{Env, Needs};
use super::model::{Approve, Branch, Lambda, Node, Seq, Statement, Work, Workflow};
use super::spans::{located, own};
use super::syntax::plain;
use crate::errors::Errors;
use crate::function::{ends, named_context};
use crate::{patterns, scope};

/// The length of the longest tuple with `Reads`.
const MAX_READS: usize = 16;

const NO_CONTEXT: &str =
    "nothing is awaited here, so there is no context; bind what needs it to a `let` with a step before";

pub(super) struct Writer<'a> {
    private: &'a TokenStream,
    output: &'a Type,
    /// The context's type, when its name is not `Context`.
    context: Option<&'a Type>,
    pub(super) errors: &'a mut Errors,
}

/// The beginning of a node's body.
pub(super) struct Opened {
    pub(super) reads: TokenStream,
    /// The pattern of the values.
    pub(super) values: TokenStream,
    /// Statements before the user's expression.
    pub(super) before: TokenStream,
    context: Option<Ident>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(private: &'a TokenStream, of: &'a Workflow, errors: &'a mut Errors) -> Self {
        let context = of.context.as_ref().map(|context| &context.ty).filter(|ty| !named_context(ty));
        Self { private, output: &of.output, context, errors }
    }

    /// The library's path and the variable with the builder, with errors at the span.
    pub(super) fn at(&self, span: Span) -> (TokenStream, Ident) {
        (located(self.private, span), own("steps", span))
    }

    /// The statements of straight-line code, ending in the handle of its output; its own bindings begin at `since`.
    pub(super) fn seq(&mut self, seq: &Seq, env: &mut Env, since: usize) -> TokenStream {
        let mut written = TokenStream::new();
        for statement in &seq.statements {
            match statement {
                Statement::Glue(local) => env.glue(local),
                Statement::Node(node) => written.extend(self.bound(node, env)),
            }
        }
        let unread = env.unread(since);
        let tail = self.node(&seq.tail, env, &unread);
        match &seq.tail.attrs[..] {
            [] => quote!(#written #tail),
            attrs => {
                let last = own("last", seq.tail.span);
                quote!(#written #(#attrs)* let #last = #tail; #last)
            }
        }
    }

    fn bound(&mut self, node: &Node, env: &mut Env) -> TokenStream {
        let handle = self.node(node, env, &[]);
        let attrs = &node.attrs;
        match &node.pat {
            Some(Pat::Ident(pat)) if pat.subpat.is_none() => {
                let variable = env.variable(&pat.ident);
                env.output(Some(pat.ident.clone()), variable.clone());
                quote!(#(#attrs)* let #variable = #handle;)
            }
            Some(Pat::Wild(_)) | None => quote!(#(#attrs)* let _ = #handle;),
            Some(pat) => {
                let variable = env.hidden(&patterns::as_name("output"));
                env.output(None, variable.clone());
                env.pattern(attrs, pat, &variable);
                quote!(#(#attrs)* let #variable = #handle;)
            }
        }
    }

    pub(super) fn open(&mut self, names: &[String], env: &mut Env, unread: &[usize], span: Span) -> Opened {
        let Needs { handles, values, before, context } = env.needs(names, unread);
        if handles.len() > MAX_READS {
            let message = format!(
                "this reads {} outputs, and a node reads at most {MAX_READS}; combine some of them in a step before",
                handles.len()
            );
            self.errors.at_span(span, message);
        }
        Opened { reads: quote!((#(#handles,)*)), values: quote!((#(#values,)*)), before, context }
    }

    /// The same for code outside of a step, which has no context.
    pub(super) fn open_pure(&mut self, names: &[String], env: &mut Env, unread: &[usize], span: Span) -> Opened {
        let opened = self.open(names, env, unread, span);
        if opened.context.is_some() {
            self.errors.at_span(span, NO_CONTEXT);
        }
        opened
    }

    /// The call of the builder for a node: an expression that is its handle.
    pub(super) fn node(&mut self, node: &Node, env: &mut Env, unread: &[usize]) -> TokenStream {
        let meta = self.meta(node, &node.name, env);
        let ty = match &node.ty {
            Some(ty) => quote!(#ty),
            None => quote_spanned!(node.span=> _),
        };
        match &node.work {
            Work::Step(expr) => self.step(node, expr, true, &ty, &meta, env, unread),
            Work::Future(expr) => self.step(node, expr, false, &ty, &meta, env, unread),
            Work::Value(expr) => self.value(node, expr, &ty, &meta, env, unread),
            Work::Route(route) => self.route(route, &ty, &meta, env, unread, node.span),
            Work::Gate { question, payload, answer } => {
                let answer = answer.as_ref().or(node.ty.as_ref());
                self.gate((question, payload.as_ref(), answer), &meta, env, unread, node.span)
            }
            Work::Map { items, step } => self.map(node, (items, step), &meta, env, unread),
            Work::Race(branches) => self.branches(branches, &own("race", node.span), &ty, &meta, env, unread),
            Work::Fallback(branches) => self.branches(branches, &own("fallback", node.span), &ty, &meta, env, unread),
            Work::Repeat { first, step, until, max } => {
                self.repeat(node, (first, step, until.as_ref(), max), &meta, env, unread)
            }
        }
    }

    /// `Node::new("x").calls("f").line(7)`, with the policy.
    pub(super) fn meta(&mut self, node: &Node, name: &str, env: &Env) -> TokenStream {
        let private = self.private;
        let (calls, policy) = (&node.calls, &node.policy);
        let line = self.line(node.span);
        let mut meta = quote!(#private::Node::new(#name).line(#line));
        if !calls.is_empty() {
            meta.extend(quote!(.calls(#calls)));
        }
        if let Some(retries) = &policy.retry {
            meta.extend(quote!(.retry(#retries)));
        }
        if let Some(timeout_ms) = policy.timeout_ms {
            meta.extend(quote!(.timeout(#private::Duration::from_millis(#timeout_ms))));
        }
        if policy.skip_on_error {
            meta.extend(quote!(.on_error(#private::OnError::Skip)));
        }
        match &policy.approve {
            Some(Approve::Usual) => {
                let question = format!("run `{name}`?");
                meta.extend(quote!(.approve(#question)));
            }
            Some(Approve::Question(question)) => meta.extend(quote!(.approve(#question))),
            None => {}
        }
        if let Some(at_once) = &policy.concurrency {
            meta.extend(quote!(.concurrency(#at_once)));
        }
        if let Some(repeatable) = &policy.repeatable {
            meta.extend(quote!(.repeatable(#repeatable)));
        }
        for after in &policy.after {
            if let Some(handle) = env.handle(&after.unraw().to_string()) {
                meta.extend(quote!(.after(#handle)));
            }
        }
        meta
    }

    /// The line of the span; every token needs the span, or the line would be the attribute's.
    pub(super) fn line(&self, span: Span) -> TokenStream {
        quote_spanned!(span=> ::core::line!())
    }

    #[expect(clippy::too_many_arguments, reason = "a node and its surroundings")]
    fn step(
        &mut self,
        node: &Node,
        expr: &Expr,
        awaited: bool,
        ty: &TokenStream,
        meta: &TokenStream,
        env: &mut Env,
        unread: &[usize],
    ) -> TokenStream {
        let opened = self.open(&scope::of_expr(expr), env, unread, node.span);
        let (_, steps) = self.at(node.span);
        // Without `?`, the output may be a `Result` by mistake.
        let is_plain = awaited && !node.wrapped && !matches!(plain(expr), Expr::Try(_));
        let ended = Ending { awaited, wrapped: node.wrapped, ty };
        let Opened { reads, .. } = &opened;
        let span = node.span.resolved_at(Span::mixed_site());
        match self.closure(expr, &opened, env, &ended, None) {
            (closure, true) => {
                let method = Ident::new(if is_plain { "call_plain" } else { "call" }, span);
                quote_spanned!(span=> #steps.#method::<_, #ty, _, _>(#meta, #reads, #closure))
            }
            (closure, false) => {
                let method = Ident::new(if is_plain { "step_plain" } else { "step" }, span);
                quote_spanned!(span=> #steps.#method::<_, #ty, _, _>(#meta, #reads, #closure))
            }
        }
    }

    /// The closure of a step, and whether it says which function it calls. `item` is what a map or a repetition binds.
    fn closure(
        &mut self,
        expr: &Expr,
        opened: &Opened,
        env: &Env,
        ending: &Ending<'_>,
        item: Option<&Pat>,
    ) -> (TokenStream, bool) {
        let span = expr.span().resolved_at(Span::mixed_site());
        let Opened { values, before, context, .. } = opened;
        let at = expr.span();
        let (cx, one) = (own("cx", at), own("item", at));
        let function = callee::variable(at);
        let private = self.private;
        let context = context.as_ref().map(|ident| {
            // With the user's own type, so that an error is reported at that type only.
            let given = self.context.map_or_else(
                || quote!(&#cx),
                |ty| located(&quote!(<#ty as #private::WorkflowContext>::of(&#cx)), ends(ty).0),
            );
            quote!(#[allow(unused_variables)] let #ident = #given;)
        });
        let item = item.map(|pat| quote!(let #pat = #one;));
        let quiet = quote!(#[allow(unused_variables, unused_mut)]);
        if let Some(KnownCall { path, call }) = callee::known_call(expr, &function, env) {
            let end = self.ending(&call, ending, span);
            let bound = match item {
                Some(_) => quote!((#one, #values)),
                None => values.clone(),
            };
            let body = quote!(#context #before #item #end);
            return (callee::body(&function, &path, (&cx, &bound), &body, at), true);
        }
        let end = self.ending(expr, ending, span);
        let one = item.as_ref().map(|_| quote!(#one,));
        let all = own("values", at);
        let closure = quote_spanned! {span=>
            move |#cx, #one #all| async move {
                #quiet
                let #values = #all;
                #[allow(unused_variables)]
                let #cx = #cx;
                #context
                #before
                #item
                #end
            }
        };
        (closure, false)
    }

    fn ending(&self, expr: &Expr, ending: &Ending<'_>, span: Span) -> TokenStream {
        let (private, _) = self.at(span);
        let Ending { awaited, wrapped, ty } = *ending;
        let expr = match awaited {
            true => quote!(#expr),
            false => quote_spanned!(span=> #expr.await?),
        };
        if wrapped && awaited {
            self.output(&expr, span)
        } else {
            quote_spanned!(span=> #private::Ok::<#ty, __AgentflowError>(#expr))
        }
    }

    /// An expression that is to be of the workflow's return type.
    fn output(&self, expr: &TokenStream, span: Span) -> TokenStream {
        let (output, ended) = (self.output, own("ended", span));
        quote_spanned! {span=>
            #[allow(clippy::let_and_return)]
            {
                let #ended: #output = #expr;
                #ended
            }
        }
    }

    fn value(
        &mut self,
        node: &Node,
        expr: &Expr,
        ty: &TokenStream,
        meta: &TokenStream,
        env: &mut Env,
        unread: &[usize],
    ) -> TokenStream {
        let opened = self.open(&scope::of_expr(expr), env, unread, node.span);
        if opened.context.is_some() {
            // Code that reads the context may do anything, so it is a step.
            return self.step(node, expr, true, ty, meta, env, unread);
        }
        let (private, steps) = self.at(node.span);
        let span = node.span.resolved_at(Span::mixed_site());
        let end = match node.wrapped {
            true => self.output(&quote!(#expr), span),
            false => quote_spanned!(span=> #private::Ok::<#ty, __AgentflowError>(#expr)),
        };
        let closure = self.pure(&opened, &end, span);
        let reads = &opened.reads;
        quote_spanned!(span=> #steps.value::<_, #ty, _>(#meta, #reads, #closure))
    }

    /// A closure that is not async and has no context.
    pub(super) fn pure(&self, opened: &Opened, end: &TokenStream, span: Span) -> TokenStream {
        let Opened { values, before, .. } = opened;
        let all = own("values", span);
        quote_spanned! {span=>
            move |#all| {
                #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                let #values = #all;
                #before
                #end
            }
        }
    }

    fn gate(
        &mut self,
        (question, payload, answer): (&Expr, Option<&Expr>, Option<&Type>),
        meta: &TokenStream,
        env: &mut Env,
        unread: &[usize],
        span: Span,
    ) -> TokenStream {
        let (private, steps) = self.at(span);
        let is_text = matches!(plain(question), Expr::Lit(literal) if matches!(literal.lit, syn::Lit::Str(_)));
        // So that the names in a format string are read.
        let asked: Expr = match is_text {
            true => syn::parse_quote_spanned!(question.span()=> #private::format!(#question)),
            false => syn::parse_quote_spanned!(question.span()=> #private::format!("{}", #question)),
        };
        let mut names = scope::of_expr(&asked);
        names.extend(payload.into_iter().flat_map(scope::of_expr));
        let opened = self.open_pure(&names, env, unread, span);
        let at = span.resolved_at(Span::mixed_site());
        let about = payload.map_or_else(|| quote!(()), |payload| quote!(#payload));
        let about_type = payload.map_or_else(|| quote!(()), |payload| quote_spanned!(payload.span()=> _));
        let answer = answer.map_or_else(|| quote!(#private::Approval), |answer| quote!(#answer));
        let end =
            quote_spanned!(at=> #private::Ok::<(#private::String, #about_type), __AgentflowError>((#asked, #about)));
        let closure = self.pure(&opened, &end, at);
        let reads = &opened.reads;
        quote_spanned!(at=> #steps.gate::<_, #about_type, #answer, _>(#meta, #reads, #closure))
    }

    fn map(
        &mut self,
        node: &Node,
        (items, step): (&Expr, &Lambda),
        meta: &TokenStream,
        env: &mut Env,
        unread: &[usize],
    ) -> TokenStream {
        let (private, steps) = self.at(items.span());
        let list_meta = self.part(node, "items", items.span());
        let span = items.span().resolved_at(Span::mixed_site());
        let list = match self.handle_of(items, env) {
            Some(handle) => quote_spanned!(span=> #steps.items(#list_meta, #handle)),
            None => {
                let opened = self.open_pure(&scope::of_expr(items), env, &[], items.span());
                let end = quote_spanned! {span=>
                    #private::Ok::<#private::Vec<_>, __AgentflowError>(
                        #private::Iterator::collect(#private::IntoIterator::into_iter(#items))
                    )
                };
                let closure = self.pure(&opened, &end, span);
                let reads = &opened.reads;
                quote_spanned!(span=> #steps.value(#list_meta, #reads, #closure))
            }
        };
        let out = quote_spanned!(step.step.span()=> _);
        let (reads, closure, calls) = self.lambda(step, &out, env, unread);
        let span = step.step.span().resolved_at(Span::mixed_site());
        let method = Ident::new(if calls { "map_call" } else { "map" }, span);
        let (all, steps) = (own("items", span), own("steps", span));
        let mapped = quote_spanned!(span=> #steps.#method::<_, _, #out, _, _>(#meta, #all, #reads, #closure));
        let mapped = self.of_type(mapped, node.ty.as_ref());
        quote!({ let #all = #list; #mapped })
    }

    /// The handle, with the type that the user wrote.
    fn of_type(&self, handle: TokenStream, ty: Option<&Type>) -> TokenStream {
        match ty {
            Some(ty) => {
                let (private, _) = self.at(ty.span());
                quote!(#private::of_type::<#ty>(#handle))
            }
            None => handle,
        }
    }

    fn repeat(
        &mut self,
        node: &Node,
        (first, step, until, max): (&Expr, &Lambda, Option<&Expr>, &Expr),
        meta: &TokenStream,
        env: &mut Env,
        unread: &[usize],
    ) -> TokenStream {
        let (private, steps) = self.at(first.span());
        let first_meta = self.part(node, "first", first.span());
        let span = first.span().resolved_at(Span::mixed_site());
        let begin = match self.handle_of(first, env) {
            Some(handle) => quote!(#handle),
            None => {
                let opened = self.open_pure(&scope::of_expr(first), env, &[], first.span());
                let end = quote_spanned!(span=> #private::Ok::<_, __AgentflowError>(#first));
                let closure = self.pure(&opened, &end, span);
                let reads = &opened.reads;
                quote_spanned!(span=> #steps.value(#first_meta, #reads, #closure))
            }
        };
        for name in until.into_iter().flat_map(scope::of_expr).filter(|name| env.is_local(name)) {
            let message = format!("`until` sees only the output of a round; return `{name}` as a part of it");
            self.errors.at(until, message);
        }
        let until = until.map_or_else(|| quote!(#private::never()), |until| quote!(#until));
        let out = quote_spanned!(step.step.span()=> _);
        let (reads, closure, calls) = self.lambda(step, &out, env, unread);
        let span = step.step.span().resolved_at(Span::mixed_site());
        let method = Ident::new(if calls { "repeat_call" } else { "repeat" }, span);
        let (first, steps) = (own("first", span), own("steps", span));
        let repeated = quote_spanned!(span=> #steps.#method(#meta, #first, #reads, (#max, #until), #closure));
        let begin = self.of_type(begin, node.ty.as_ref());
        quote!({ let #first = #begin; #repeated })
    }

    /// The reads of a step for items, its closure, and whether the closure says which function it calls.
    fn lambda(
        &mut self,
        lambda: &Lambda,
        out: &TokenStream,
        env: &mut Env,
        unread: &[usize],
    ) -> (TokenStream, TokenStream, bool) {
        let bound: Vec<String> = patterns::binds(&lambda.pat).iter().map(|ident| ident.unraw().to_string()).collect();
        let mut names = scope::of_expr(&lambda.step);
        names.retain(|name| !bound.contains(name));
        let opened = self.open(&names, env, unread, lambda.step.span());
        let ending = Ending { awaited: false, wrapped: false, ty: out };
        let (closure, calls) = self.closure(&lambda.step, &opened, env, &ending, Some(&lambda.pat));
        (opened.reads, closure, calls)
    }

    fn handle_of<'e>(&self, expr: &Expr, env: &'e mut Env) -> Option<&'e Ident> {
        let Expr::Path(path) = plain(expr) else { return None };
        let name = path.path.get_ident()?.unraw().to_string();
        env.is_output(&name).then(|| env.handle(&name)).flatten()
    }

    /// A node that prepares another one, such as `notes.items`.
    fn part(&mut self, node: &Node, part: &str, span: Span) -> TokenStream {
        let private = self.private;
        let name = format!("{}.{part}", node.name);
        let line = self.line(span);
        quote!(#private::Node::new(#name).line(#line))
    }

    fn branches(
        &mut self,
        branches: &[Branch],
        form: &Ident,
        ty: &TokenStream,
        meta: &TokenStream,
        env: &mut Env,
        unread: &[usize],
    ) -> TokenStream {
        let (private, steps) = self.at(form.span());
        let all = own("branches", form.span());
        let mut written = quote!(let #all = #private::branches::<#ty>(););
        for (at, branch) in branches.iter().enumerate() {
            let unread = if at == 0 { unread } else { &[] };
            let opened = self.open(&scope::of_expr(&branch.step), env, unread, branch.step.span());
            let span = branch.step.span().resolved_at(Span::mixed_site());
            let out = quote_spanned!(span=> _);
            let ending = Ending { awaited: branch.awaited, wrapped: false, ty: &out };
            let (closure, calls) = self.closure(&branch.step, &opened, env, &ending, None);
            let method = Ident::new(if calls { "branch_call" } else { "branch" }, span);
            let (name, reads, one) = (&branch.name, &opened.reads, own("branch", span));
            let ((private, steps), all) = (self.at(span), own("branches", span));
            written.extend(quote_spanned! {span=>
                let #one = #steps.#method::<_, #out, _, _>(#name, #reads, #closure);
                let #all = #private::Branches::branch(#all, #one);
            });
        }
        quote!({ #written #steps.#form(#meta, #all) })
    }
}

/// How a step's expression becomes the step's result.
struct Ending<'a> {
    /// Whether the user wrote `.await`.
    awaited: bool,
    /// Whether the expression is a `Result`.
    wrapped: bool,
    ty: &'a TokenStream,
}
