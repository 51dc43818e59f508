//! Generates a node: a call to the builder with the handles that the node reads and a closure with
//! the user's expression. `routes` generates choices, `rounds` forms and loops, and `calls` the
//! calls of functions.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Expr, Pat, Type};

use super::calls::{self, Calls};
use super::code::fingerprint;
use super::env::{self, Env, ReadRequirements, nested};
use super::judged::{Judged, judged};
use super::model::{Borrowed, Node, Seq, Statement, Work, Workflow};
use super::rounds;
use super::spans::{located, own};
use super::syntax::{awaits, has_check, is_assertion, is_let_else, is_untyped_none, plain};
use crate::errors::Errors;
use crate::function::{ends, named_context};
use crate::{patterns, scope};

const NO_CONTEXT: &str = "nothing is awaited here, so there is no context; bind what needs it to a `let` with a step before";

pub(super) struct Writer<'a> {
    pub(super) private: &'a TokenStream,
    output: &'a Type,
    /// Variables that the body awaits later. They are allowed to hold futures.
    awaited: Vec<Ident>,
    /// Type of the context, if it is not named `Context`.
    context: Option<&'a Type>,
    pub(super) errors: &'a mut Errors,
    /// Variables with the handles of all bindings so far, with their spans.
    pub(super) bound: Vec<(Ident, Span)>,
}

/// The first part of a node's body.
pub(super) struct Opened {
    pub(super) reads: TokenStream,
    /// Pattern of the values.
    pub(super) values: TokenStream,
    /// Code in front of the user's expression.
    pub(super) before: Vec<env::Before>,
    pub(super) context: Option<Ident>,
}

/// The conversion of a step's expression into the step's result.
pub(super) struct Ending<'a> {
    /// `true` if the expression is a future without `.await?`.
    pub(super) future: bool,
    /// `true` if the expression is a `Result`.
    pub(super) wrapped: bool,
    /// `true` if the expression is the value of a `let`, which may be a future by mistake.
    pub(super) bound: bool,
    pub(super) ty: &'a TokenStream,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        private: &'a TokenStream,
        of: &'a Workflow,
        awaited: Vec<Ident>,
        errors: &'a mut Errors,
    ) -> Self {
        let context =
            of.context.as_ref().map(|context| &context.ty).filter(|ty| !named_context(ty));
        Self { private, output: &of.output, awaited, context, errors, bound: Vec::new() }
    }

    /// Returns the library's path and the variable with the builder. Errors about them are reported
    /// at the span.
    pub(super) fn at(&self, span: Span) -> (TokenStream, Ident) {
        (located(self.private, span), own("steps", span))
    }

    /// Generates straight-line code that ends in the handle of its output. `since` is the index of
    /// its first binding.
    pub(super) fn seq(&mut self, seq: &Seq, env: &mut Env, since: usize) -> TokenStream {
        let items = &seq.items;
        let first = self.bound.len();
        let code = self.from(&seq.statements, &seq.tail, env, (since, first));
        self.bound.truncate(first);
        quote!(#(#items)* #code)
    }

    fn from(
        &mut self,
        statements: &[Statement],
        tail: &Node,
        env: &mut Env,
        (since, first): (usize, usize),
    ) -> TokenStream {
        let mut written = TokenStream::new();
        for (at, statement) in statements.iter().enumerate() {
            match statement {
                Statement::View(local) => {
                    let one_type = is_untyped_none(local).then(|| env.hidden("one_type"));
                    written.extend(one_type.as_ref().map(|one_type| {
                        let private = located(self.private, local.pat.span());
                        quote_spanned!(local.pat.span()=> let #one_type = #private::one_type();)
                    }));
                    env.view(local, one_type, self.private);
                }
                Statement::Rules(rules) => env.macro_rules(rules),
                Statement::Look(node) => written.extend(self.look(node, env)),
                Statement::Node(node) => {
                    written.extend(self.bound(node, env));
                    if node.leaves {
                        let (_, steps) = self.at(node.span);
                        let (router, returned, returns) = end_variables(node);
                        let rest = self.from(&statements[at + 1..], tail, env, (since, first));
                        return quote! {
                            #written
                            let #returned = #steps.returned(#router, &#returns);
                            #steps.unless(#returned, |#steps| { #rest })
                        };
                    }
                }
            }
        }
        let last = self.node(tail, env);
        let unread = env.unread(since).map(|needs| {
            let (_, steps) = self.at(Span::call_site());
            let opened = self.opened(needs);
            let closure = self.pure(&opened, &quote!(), Span::mixed_site());
            let reads = &opened.reads;
            quote!(#steps.unread(#reads, #closure);)
        });
        let ordered = self.in_one_order(statements, tail, env);
        // In an arm with a value, types may be inferred from a reader below the arm.
        let is_known = since == 0
            || tail.wrapped
            || matches!(&tail.work, Work::Value(Expr::Tuple(unit)) if unit.elems.is_empty());
        let owned = if is_known { self.owned(first) } else { TokenStream::new() };
        let unread = quote!(#unread #ordered);
        match &tail.attrs[..] {
            [] if owned.is_empty() => quote!(#written #unread #last),
            attrs => {
                // Types may also be inferred from the last expression.
                let (value, private, output) = (own("last", tail.span), self.private, self.output);
                let ty = (since == 0)
                    .then(|| quote!(: #private::Handle<<#output as #private::WorkflowReturn>::Ok>));
                quote!(#written #unread #(#attrs)* let #value #ty = #last; #owned #value)
            }
        }
    }

    fn bound(&mut self, node: &Node, env: &mut Env) -> TokenStream {
        let attrs = &node.attrs;
        let conditional = attrs.iter().any(super::attrs::is_cfg);
        // Nodes below a choice that can end the workflow need its router, so the router gets a
        // variable.
        let (before, handle) = match &node.work {
            Work::Route(route) if node.leaves => {
                let ty = self.type_of(node);
                let (before, handle) =
                    self.route_parts(node, route, &end_variables(node).0, &ty, env);
                (Some(before), handle)
            }
            _ => (None, self.node(node, env)),
        };
        let is_judged = attrs.is_empty() && matches!(node.work, Work::Step(_) | Work::Value(_));
        match &node.pat {
            Some(Pat::Ident(pat)) if pat.subpat.is_none() => {
                let variable = env.variable(&pat.ident, conditional);
                // The compiler would not warn about an unused variable that the ownership check
                // reads, so the check uses another one.
                let judged = is_judged.then(|| env.hidden("bound"));
                self.bound.extend(judged.iter().map(|judged| (judged.clone(), node.span)));
                env.output(Some(pat.ident.clone()), variable.clone(), &node.name);
                if !attrs.is_empty() {
                    // The attributes may allow unused variables.
                    env.is_read(std::iter::once(pat.ident.unraw().to_string()));
                }
                match judged {
                    Some(judged) => quote!(#before let #judged = #handle; let #variable = #judged;),
                    None => quote!(#before #(#attrs)* let #variable = #handle;),
                }
            }
            Some(Pat::Wild(_)) | None => quote!(#before #(#attrs)* let _ = #handle;),
            Some(pat) => {
                let variable = env.hidden(&patterns::as_name("output"));
                self.bound.extend(is_judged.then(|| (variable.clone(), node.span)));
                env.output(None, variable.clone(), &node.name);
                env.pattern(attrs, pat, &variable, Borrowed::No);
                quote!(#before #(#attrs)* let #variable = #handle;)
            }
        }
    }

    pub(super) fn open(&mut self, names: &[String], env: &mut Env) -> Opened {
        let needs = env.needs(names);
        self.opened(needs)
    }

    fn opened(&mut self, needs: ReadRequirements) -> Opened {
        let ReadRequirements { handles, values, before, context, changed } = needs;
        for name in changed {
            self.errors.at(
                &name,
                format!(
                    "`{name}` can change, and several steps read it, each a copy of its own; read it in one step, or \
                     remove `mut`"
                ),
            );
        }
        let reads = nested(&handles, &|part| quote!((#(#part,)*)), self.private);
        let values = nested(&values, &|part| quote!((#(#part,)*)), &TokenStream::new());
        Opened { reads, values, before, context }
    }

    /// Like [`open`](Self::open), for code outside of a step, which has no context.
    pub(super) fn open_pure(&mut self, names: &[String], env: &mut Env, span: Span) -> Opened {
        let opened = self.open(names, env);
        if opened.context.is_some() {
            self.errors.at_span(span, NO_CONTEXT);
        }
        opened
    }

    fn type_of(&self, node: &Node) -> TokenStream {
        match &node.ty {
            Some(ty) => quote!(#ty),
            None => quote_spanned!(node.span=> _),
        }
    }

    /// Generates the builder call for a node: an expression that evaluates to its handle.
    pub(super) fn node(&mut self, node: &Node, env: &mut Env) -> TokenStream {
        let ty = self.type_of(node);
        match &node.work {
            Work::Step(expr) => self.step(node, expr, false, &ty, env),
            Work::Future(expr) => self.step(node, expr, true, &ty, env),
            Work::Value(expr) => self.value(node, expr, &ty, env),
            Work::Check(expr) => self.check(node, expr, env),
            Work::Never(expr) => self.never(node, expr, &ty, env),
            Work::Route(route) => self.route(node, route, &ty, env),
            Work::Gate { question, payload, answer } => {
                let answer = answer.as_ref().or(node.ty.as_ref());
                self.gate(node, (question, payload.as_ref(), answer), env)
            }
            Work::Map { items, step } => self.map(node, items, step, env),
            Work::For { items, pat, body } => self.for_each(node, items, pat, body, env),
            Work::Race(branches) => self.branches(node, branches, "race", &ty, env),
            Work::Fallback(branches) => self.branches(node, branches, "fallback", &ty, env),
            Work::Repeat { first, step, until, max } => {
                self.repeat(node, (first, step, until.as_ref(), max), env)
            }
        }
    }

    /// Writes `Node::new("x").calls("f").line(7)` with the fingerprint of the node's code and its
    /// policy.
    pub(super) fn meta(
        &mut self,
        node: &Node,
        code: &[&dyn ToTokens],
        env: &mut Env,
    ) -> TokenStream {
        let private = self.private;
        let (name, calls, policy) = (&node.name, &node.calls, &node.policy);
        let line = self.line(node.span);
        let code = fingerprint(code, env);
        let mut meta = quote!(#private::Node::new(#name).line(#line).code(#code));
        if !calls.is_empty() {
            meta.extend(quote!(.calls(#calls)));
        }
        meta.extend(policy.calls(name, private));
        if policy.write {
            meta.extend(quote!(.write()));
        }
        if policy.unordered {
            meta.extend(quote!(.unordered()));
        }
        for after in &policy.after {
            if let Some(handle) = env.handle(&after.unraw().to_string()) {
                meta.extend(quote!(.after(#handle)));
            }
        }
        meta
    }

    /// Generates the line number of a span. Every token needs the span; otherwise the line would be
    /// the attribute's.
    pub(super) fn line(&self, span: Span) -> TokenStream {
        quote_spanned!(span=> ::core::line!())
    }

    fn step(
        &mut self,
        node: &Node,
        expr: &Expr,
        future: bool,
        ty: &TokenStream,
        env: &mut Env,
    ) -> TokenStream {
        let opened = self.open(&scope::names_read_by_expr(expr), env);
        let mut meta = self.meta(node, &[expr], env);
        let (asking, place) = self.place_of_step(&[(expr, future)], env);
        meta.extend(place.method);
        let (_, steps) = self.at(node.span);
        // Without `?`, the output may be a `Result` by mistake.
        let is_plain = !future && !node.wrapped && !matches!(plain(expr), Expr::Try(_));
        let ending = Ending { future, wrapped: node.wrapped, bound: false, ty };
        let mut calls = calls::asking(expr, &asking[0], env);
        if node.is_statement {
            // The value is dropped, and the compiler warns if it must be used.
            let value = self.tried(&calls.expr);
            calls.expr = syn::parse_quote_spanned!(expr.span()=> { #value; });
        }
        calls.first = place.first;
        if let Some(text) = &calls.direct {
            meta.extend(quote!(.direct().text(#text)));
        }
        if has_check(expr) {
            meta.extend(quote!(.checking()));
        }
        let reads = &opened.reads;
        let closure = self.body(&calls, &opened, &ending, None, expr.span());
        let span = node.span.resolved_at(Span::mixed_site());
        let method = match (judged(expr).and_then(Judged::step), node.is_part, is_plain) {
            (Some(method), false, _) if !future && node.pat.is_some() => method,
            (_, true, _) => "matched",
            (_, false, true) => "step_plain",
            (_, false, false) => "step",
        };
        let method = Ident::new(method, span);
        place.declared.in_front_of(
            quote_spanned!(span=> #steps.#method::<_, #ty, _, _>(#meta, #reads, #closure)),
        )
    }

    /// Generates the body of a step: an async closure that first announces the functions that it
    /// calls. `item` binds the variable of a form.
    pub(super) fn body(
        &mut self,
        calls: &Calls,
        opened: &Opened,
        ending: &Ending<'_>,
        item: Option<&TokenStream>,
        at: Span,
    ) -> TokenStream {
        let (first, end) =
            (&calls.first, self.ending(&calls.expr, ending, at.resolved_at(Span::mixed_site())));
        self.body_with(calls, opened, &quote!(#first #end), item, at)
    }

    fn body_with(
        &mut self,
        calls: &Calls,
        opened: &Opened,
        end: &TokenStream,
        item: Option<&TokenStream>,
        at: Span,
    ) -> TokenStream {
        let span = at.resolved_at(Span::mixed_site());
        let (private, _) = self.at(span);
        let Opened { values, before, context, .. } = opened;
        let (cx, one, args) = (own("cx", at), own("item", at), own("args", at));
        let context = context.as_ref().map(|ident| {
            // With the user's type, an error is reported only at that type.
            let given = self.context.map_or_else(
                || quote!(&#cx),
                |ty| located(&quote!(<#ty as #private::WorkflowContext>::of(&#cx)), ends(ty).0),
            );
            quote!(#[allow(unused_variables)] let #ident = #given;)
        });
        let code = env::after(before, self.private, quote!(#item #end));
        let bound = match item {
            Some(_) => quote!((#one, #values)),
            None => values.clone(),
        };
        let functions = calls::bindings(&calls.functions);
        let ids = calls
            .functions
            .iter()
            .map(|(variable, _)| quote_spanned!(span=> #private::function_id(&#variable)));
        quote_spanned! {span=>
            move |#args| async move {
                #functions
                #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                let (#cx, #bound) = #args.calling([#(#ids),*]).await;
                #context
                #code
            }
        }
    }

    fn ending(&self, expr: &Expr, ending: &Ending<'_>, span: Span) -> TokenStream {
        let (private, _) = self.at(span);
        let Ending { future, wrapped, bound, ty } = *ending;
        let expr = match future {
            false if bound => {
                let value = self.tried(expr);
                quote_spanned!(span=> #private::LetOutput(#value).bound().value())
            }
            false => self.tried(expr),
            true => {
                let awaited = rounds::awaited(expr);
                quote_spanned!(span=> #private::FormStep(#awaited).failing::<__AgentflowError>()?)
            }
        };
        if wrapped && !future {
            self.output(&expr, span)
        } else {
            quote_spanned!(span=> #private::Ok::<#ty, __AgentflowError>(#expr))
        }
    }

    /// Generates the expression. If it ends in `?`, a function of the library converts the error
    /// into the workflow's error type, so that a type mismatch has a helpful message.
    fn tried(&self, expr: &Expr) -> TokenStream {
        match plain(expr) {
            Expr::Try(tried) if awaits(&tried.expr).is_some() => {
                let (attrs, step, mark) = (&tried.attrs, &tried.expr, &tried.question_token);
                let span = mark.span();
                let (of, error) = (located(self.private, span), own("__AgentflowError", span));
                let failing =
                    quote_spanned!(span.resolved_at(Span::mixed_site())=> .failing::<#error>());
                quote!(#(#attrs)* #of::TriedStep(#step) #failing #mark)
            }
            Expr::Try(tried) if matches!(plain(&tried.expr), Expr::Call(_)) => {
                let (attrs, call, mark) = (&tried.attrs, &tried.expr, &tried.question_token);
                let span = call.span();
                let (of, error) = (located(self.private, span), own("__AgentflowError", span));
                let failing =
                    quote_spanned!(span.resolved_at(Span::mixed_site())=> .failing::<#error>());
                let result = quote_spanned!(span=> #of::TriedValue(#call) #failing);
                quote!(#(#attrs)* #result #mark)
            }
            _ => quote!(#expr),
        }
    }

    /// Generates an expression that must have the workflow's return type.
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

    fn value(&mut self, node: &Node, expr: &Expr, ty: &TokenStream, env: &mut Env) -> TokenStream {
        let opened = self.open(&scope::names_read_by_expr(expr), env);
        if opened.context.is_some() {
            // Code that reads the context may have side effects, so it is a step.
            return self.step(node, expr, false, ty, env);
        }
        let mut meta = self.meta(node, &[expr], env);
        let (asking, place) = self.place_of_value(&[expr], env);
        meta.extend(place.method);
        if has_check(expr) {
            meta.extend(quote!(.checking()));
        }
        let (_, steps) = self.at(node.span);
        let span = node.span.resolved_at(Span::mixed_site());
        let mut calls = calls::asking(expr, &asking[0], env);
        let reads = &opened.reads;
        let bound = match (&node.pat, plain(expr)) {
            (Some(Pat::Ident(pat)), Expr::Call(_) | Expr::MethodCall(_)) => {
                node.ty.is_none() && judged(expr).is_none() && !self.awaited.contains(&pat.ident)
            }
            _ => false,
        };
        let ending = Ending { future: false, wrapped: node.wrapped, bound, ty };
        if calls.functions.is_empty() {
            let (first, end) = (&place.first, self.ending(&asking[0], &ending, span));
            let closure = self.pure(&opened, &quote!(#first #end), span);
            let method = match node.pat.is_some() {
                true if judged(expr) == Some(Judged::Guard) => "guarded_value",
                true => "let_value",
                false => "value",
            };
            let method = Ident::new(method, span);
            return place.declared.in_front_of(
                quote_spanned!(span=> #steps.#method::<_, #ty, _>(#meta, #reads, #closure)),
            );
        }
        calls.first = place.first;
        let direct = calls.direct.as_ref().map(|text| quote!(.direct().text(#text)));
        let closure = self.body(&calls, &opened, &ending, None, expr.span());
        let is_clock = judged(expr) == Some(Judged::Clock);
        let method = Ident::new(if is_clock { "clock_value" } else { "value_call" }, span);
        place.declared.in_front_of(
            quote_spanned!(span=> #steps.#method::<_, #ty, _, _>(#meta #direct, #reads, #closure)),
        )
    }

    /// Generates a statement without a step.
    fn check(&mut self, node: &Node, expr: &Expr, env: &mut Env) -> TokenStream {
        let opened = self.open(&scope::names_read_by_expr(expr), env);
        let meta = self.meta(node, &[expr], env);
        let (private, steps) = self.at(node.span);
        let span = node.span.resolved_at(Span::mixed_site());
        // An assertion can only fail. Other statements are executed for their side effects.
        let asked = if is_assertion(expr) { &[expr][..] } else { &[] };
        let (asking, place) = self.place_of_value(asked, env);
        let calls = calls::asking(expr, asking.first().unwrap_or(expr), env);
        let direct = calls.direct.as_ref().map(|text| quote!(.direct().text(#text)));
        let effect = if is_assertion(expr) { place.method } else { quote!(.write()) };
        let (first, statement) = (&place.first, &calls.expr);
        // As a statement, so that the compiler warns about values that must be used.
        let statement = quote!(#first #statement;);
        // Readers match the pattern of a `let .. else` again, and the compiler's warnings about it
        // appear there.
        let matched = is_let_else(expr).then(|| quote!(unused_variables,));
        let end = quote_spanned! {span=>
            #[allow(#matched clippy::let_unit_value, clippy::let_underscore_must_use, clippy::let_underscore_untyped)]
            { #statement }
            #private::Ok::<(), __AgentflowError>(())
        };
        let closure = self.body_with(&calls, &opened, &end, None, expr.span());
        let reads = &opened.reads;
        place.declared.in_front_of(
            quote_spanned!(span=> #steps.check(#meta #direct #effect, #reads, #closure)),
        )
    }

    /// Generates an arm that never has a value.
    fn never(&mut self, node: &Node, expr: &Expr, ty: &TokenStream, env: &mut Env) -> TokenStream {
        let opened = self.open_pure(&scope::names_read_by_expr(expr), env, node.span);
        let mut meta = self.meta(node, &[expr], env);
        let (asking, place) = self.place_of_value(&[expr], env);
        meta.extend(place.method);
        let (first, asking, declared) = (&place.first, &asking[0], &place.declared);
        let (_, steps) = self.at(node.span);
        let span = node.span.resolved_at(Span::mixed_site());
        let reads = &opened.reads;
        // Calls before the end of the arm may be tools, which have a policy.
        if matches!(plain(expr), Expr::Block(block) if block.block.stmts.len() > 1) {
            let calls = calls::asking(expr, asking, env);
            if !calls.functions.is_empty() {
                let end = &calls.expr;
                let closure =
                    self.body_with(&calls, &opened, &quote!(#first #end), None, expr.span());
                let call = quote_spanned!(span=> #steps.never_call::<_, #ty, _, _>(#meta, #reads, #closure));
                return declared.in_front_of(call);
            }
        }
        let closure = self.pure(&opened, &quote!(#first #asking), span);
        declared
            .in_front_of(quote_spanned!(span=> #steps.never::<_, #ty, _>(#meta, #reads, #closure)))
    }

    /// Generates a closure that is not async and has no context.
    pub(super) fn pure(&self, opened: &Opened, end: &TokenStream, span: Span) -> TokenStream {
        let Opened { values, before, .. } = opened;
        let all = own("values", span);
        let code = env::after(before, self.private, end.clone());
        quote_spanned! {span=>
            move |#all| {
                #[allow(unused_variables, unused_mut, clippy::let_unit_value)]
                let #values = #all;
                #code
            }
        }
    }
}

/// Returns the variables of a choice that can end the workflow: its router, the marker that an end
/// was reached, and the collection of all ends.
pub(super) fn end_variables(node: &Node) -> (Ident, Ident, Ident) {
    let at = node.span;
    (own("router_with_ends", at), own("returned", at), own("returns", Span::call_site()))
}
