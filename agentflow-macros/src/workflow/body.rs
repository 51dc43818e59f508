//! Reads a body: which `let` is a node, which is glue (a `let` without a step), which `if` or `match` is a router, and what
//! the output is. It writes nothing; refusals of statements are in `refuse`.

use std::collections::HashSet;

use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Block, Expr, ExprIf, ExprMatch, Local, Pat, Stmt, Type};

use super::model::{Arm, Branch, Head, Input, Node, Policy, Route, Seq, Statement, Work};
use super::syntax::{awaits, called, calls, form, future, in_ok, is_route, plain, written};
use super::{attrs, forms, refuse};
use crate::errors::Errors;
use crate::patterns::{arm_name, as_name, binds, binds_of_condition, unguarded};

/// The body, and the number of mistakes that are statements and control flow refused in a workflow.
pub(super) fn body(block: Block, inputs: &[Input], errors: &mut Errors) -> (Seq, usize) {
    refuse::control_flow(&block, errors);
    let flow = errors.len();
    let mut reader = Reader { errors, scope: Vec::new(), flow };
    let mut names = NodeNames::default();
    for input in inputs {
        names.taken.insert(input.ident.unraw().to_string());
        reader.scope.push((input.ident.unraw().to_string(), true));
    }
    let end = block.brace_token.span.close();
    let seq = reader.seq(block.stmts, end, true, names);
    (seq, reader.flow)
}

struct Reader<'e> {
    errors: &'e mut Errors,
    /// The names in scope, and whether each is a node.
    scope: Vec<(String, bool)>,
    /// The number of mistakes that are refused statements and control flow.
    flow: usize,
}

/// The names of the nodes of one body or arm.
#[derive(Default)]
struct NodeNames {
    taken: HashSet<String>,
}

impl NodeNames {
    /// The name, with a number when it is taken.
    fn free(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut number = 1;
        while !self.taken.insert(name.clone()) {
            number += 1;
            name = format!("{wanted}_{number}");
        }
        name
    }
}

impl Reader<'_> {
    fn seq(&mut self, mut statements: Vec<Stmt>, end: Span, wrapped: bool, mut names: NodeNames) -> Seq {
        let outside = self.scope.len();
        let top = wrapped && outside == names.taken.len();
        let tail = self.take_tail(&mut statements, end);
        let mut all = Vec::new();
        for statement in statements {
            match statement {
                Stmt::Local(local) => all.extend(self.binding(local, &mut names)),
                other => {
                    let before = self.errors.len();
                    refuse::statement(&other, self.errors);
                    self.flow += self.errors.len() - before;
                }
            }
        }
        let mut tail = tail.map_or_else(
            || Node::tail(Work::Value(syn::parse_quote!(())), end, wrapped),
            |expr| self.tail(expr, wrapped, Vec::new(), &mut names),
        );
        // The user's own names come first; the other nodes are named after what they call.
        for statement in &mut all {
            if let Statement::Node(node) = statement
                && node.name.is_empty()
            {
                node.name = names.free(&as_name(&default_name(&node.work)));
            }
        }
        if tail.name.is_empty() {
            let wanted = match &tail.work {
                Work::Value(_) if top => "output".to_owned(),
                Work::Value(_) => "yield".to_owned(),
                work => default_name(work),
            };
            tail.name = names.free(&as_name(&wanted));
        }
        self.scope.truncate(outside);
        Seq { statements: all, tail: Box::new(tail) }
    }

    fn take_tail(&mut self, statements: &mut Vec<Stmt>, end: Span) -> Option<Expr> {
        match statements.pop() {
            Some(Stmt::Expr(expr, None)) => Some(expr),
            Some(Stmt::Macro(mac)) if mac.semi_token.is_none() => {
                Some(Expr::Macro(syn::ExprMacro { attrs: mac.attrs, mac: mac.mac }))
            }
            last => {
                statements.extend(last);
                let message =
                    "a workflow ends with its output; add `Ok(..)` here, or a last step such as `step(x).await`";
                self.errors.at_span(end, message);
                None
            }
        }
    }

    fn binding(&mut self, mut local: Local, names: &mut NodeNames) -> Option<Statement> {
        let mut before = std::mem::take(&mut local.attrs);
        let Some(init) = &mut local.init else {
            self.errors.at(&local, "a `let` in a workflow needs a value; add `= ..`");
            return None;
        };
        if let Some((token, _)) = init.diverge.take() {
            self.errors.at(
                token,
                "`let .. else` would end the workflow in the middle of its graph; write a `match` with an arm for each case",
            );
        }
        let mut expr = (*init.expr).clone();
        let is_form = matches!(future(&expr), Expr::Macro(mac) if form(&mac.mac).is_some());
        let is_node = awaits(&expr).is_some() || is_form;
        if is_node {
            before.extend(attrs::off(&mut expr));
        }
        let attrs::StatementAttrs { mut policy, ours, others } = attrs::read(before, self.errors);
        self.check_after(&policy);
        if !is_node {
            if let Some(attribute) = ours {
                let message = "these options are for a node, and nothing is awaited in this `let`; remove them";
                self.errors.at(attribute, message);
            }
            local.attrs = others;
            refuse::question_marks(&expr, self.errors);
            self.scope.extend(binds(&local.pat).iter().map(|ident| (ident.unraw().to_string(), false)));
            return Some(Statement::Glue(local));
        }
        let span = expr.span();
        let (work, calls) = self.work(expr, false, &mut policy)?;
        self.check_policy(&policy, &work, ours.as_ref());
        let (pat, ty) = typed(local.pat);
        if let Pat::Ident(ident) = &pat
            && let Some(token) = ident.mutability.map(|token| token.span).or(ident.by_ref.map(|token| token.span))
        {
            self.errors.at_span(token, "the output of a node cannot change; remove `mut` or `ref`");
        }
        let bound = binds(&pat);
        let name = match &policy.id {
            Some(id) => id.clone(),
            None => {
                let words: Vec<String> = bound.iter().map(|ident| ident.unraw().to_string()).collect();
                words.join("_").trim_start_matches('_').to_owned()
            }
        };
        self.take_name(&name, &pat, names);
        self.scope.extend(bound.iter().map(|ident| (ident.unraw().to_string(), true)));
        let node = Node { name, pat: Some(pat), ty, attrs: others, calls, policy, span, wrapped: false, work };
        Some(Statement::Node(node))
    }

    /// Checks that a name given by the user is free; an empty one was not given.
    fn take_name(&mut self, name: &str, at: impl ToTokens, names: &mut NodeNames) {
        if !name.is_empty() && !names.taken.insert(name.to_owned()) {
            let message = format!("two nodes are named `{name}`; rename one, or add `#[node(id = \"..\")]` before it");
            self.errors.at(at, message);
        }
    }

    /// The last expression of the body or an arm; `before` are the attributes of an expression around it.
    fn tail(&mut self, mut expr: Expr, wrapped: bool, mut before: Vec<Attribute>, names: &mut NodeNames) -> Node {
        before.extend(attrs::off(&mut expr));
        let span = expr.span();
        // `Ok(inner)`: `inner` is read like the last expression of an arm.
        if wrapped
            && let Some(inner) = in_ok(&expr)
            && (is_route(inner) || matches!(future(inner), Expr::Macro(mac) if form(&mac.mac).is_some()))
            && awaits(inner).is_some()
        {
            return self.tail(inner.clone(), false, before, names);
        }
        let attrs::StatementAttrs { mut policy, ours, others } = attrs::read(before, self.errors);
        self.check_after(&policy);
        let is_form = matches!(future(&expr), Expr::Macro(mac) if form(&mac.mac).is_some());
        if awaits(&expr).is_none() && !is_form {
            if let Some(attribute) = ours {
                self.errors.at(attribute, "these options are for a node, and nothing is awaited here; remove them");
            }
            return Node { attrs: others, ..Node::tail(Work::Value(expr), span, wrapped) };
        }
        match self.work(expr, wrapped, &mut policy) {
            Some((work, calls)) => {
                self.check_policy(&policy, &work, ours.as_ref());
                let name = policy.id.clone().unwrap_or_default();
                self.take_name(&name, &ours, names);
                Node { name, attrs: others, policy, calls, ..Node::tail(work, span, wrapped) }
            }
            None => Node::tail(Work::Value(syn::parse_quote!(())), span, wrapped),
        }
    }

    fn work(&mut self, expr: Expr, wrapped: bool, policy: &mut Policy) -> Option<(Work, String)> {
        match plain(&expr) {
            Expr::If(test) => {
                return self.route_if(test.clone(), wrapped).map(|route| (Work::Route(route), "if".into()));
            }
            Expr::Match(cases) => {
                let calls = format!("match {}", written(&cases.expr));
                return self.route_match(cases.clone(), wrapped).map(|route| (Work::Route(route), calls));
            }
            _ => {}
        }
        if let Expr::Macro(mac) = future(&expr)
            && let Some(name) = form(&mac.mac)
        {
            self.check_awaited(&expr, &name, wrapped);
            let work = forms::read(&name, &mac.mac, policy, self.errors)?;
            let calls = match &work {
                Work::Map { step, .. } | Work::Repeat { step, .. } => calls(&step.step),
                Work::Future(step) => calls(step),
                _ => String::new(),
            };
            return Some((work, calls));
        }
        let calls = calls(&expr);
        if let Some(instead) = policy.route.take() {
            let name = as_name(&called(&expr));
            // A branch gives a value; the last expression of a workflow is a `Result` of it.
            let (step, awaited) = match (plain(&expr), in_ok(&expr)) {
                (_, Some(inner)) if wrapped => (inner.clone(), true),
                (Expr::Await(awaited), _) if wrapped => ((*awaited.base).clone(), false),
                _ if wrapped => {
                    self.errors.at(&expr, "`on_error = route(..)` needs a single call; bind this one to a `let` first");
                    return None;
                }
                _ => (expr, true),
            };
            let first = Branch { name, step, awaited };
            return Some((Work::Fallback(vec![first, forms::branch(instead, self.errors)]), calls));
        }
        Some((Work::Step(expr), calls))
    }

    fn check_awaited(&mut self, expr: &Expr, name: &str, wrapped: bool) {
        let (awaited, tried) = match plain(expr) {
            Expr::Try(tried) => (matches!(plain(&tried.expr), Expr::Await(_)), true),
            Expr::Await(_) => (true, false),
            _ => (false, false),
        };
        if !awaited || tried == wrapped {
            let end = if wrapped { ".await" } else { ".await?" };
            self.errors.at(expr, format!("add `{end}` after the form, as in `{name}!(..){end}`"));
        }
    }

    fn check_after(&mut self, policy: &Policy) {
        for after in &policy.after {
            let name = after.unraw().to_string();
            match self.scope.iter().rev().find(|(known, _)| *known == name) {
                Some((_, true)) => {}
                Some((_, false)) => {
                    self.errors.at(
                        after,
                        format!("`{name}` is not a node, since nothing is awaited in its `let`; name a node"),
                    );
                }
                None => {
                    let nodes = self.scope.iter().filter(|(_, node)| *node).map(|(name, _)| name.as_str());
                    let hint = crate::errors::nearest(&name, nodes)
                        .map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
                    self.errors.at(after, format!("there is no node `{name}` before this one{hint}"));
                }
            }
        }
    }

    fn check_policy(&mut self, policy: &Policy, work: &Work, attribute: Option<&Attribute>) {
        let Some(attribute) = attribute else { return };
        let many = matches!(work, Work::Map { .. } | Work::Race(_));
        if let Some(number) = policy.concurrency.as_ref().filter(|_| !many) {
            self.errors.at(number, "`concurrency` is for `map!` and `race!`; remove it, since this is one step");
        }
        let wrong = match work {
            Work::Route(_) => {
                policy.retry.is_some()
                    || policy.timeout_ms.is_some()
                    || policy.skip_on_error
                    || policy.approve.is_some()
                    || policy.repeatable.is_some()
            }
            _ => false,
        };
        if wrong {
            let message = "an `if` or `match` is not a step; move these options to a `let` in an arm (only `id` and \
                           `#[after(..)]` can be here)";
            self.errors.at(attribute, message);
        }
        if let Work::Gate { .. } = work
            && (policy.retry.is_some() || policy.approve.is_some() || policy.repeatable.is_some())
        {
            self.errors.at(
                attribute,
                "a gate has no `retry`, `approve` or `repeatable`, since it asks a person once; remove them",
            );
        }
        if policy.route.is_some() {
            self.errors
                .at(attribute, "`on_error = route(..)` needs a single call; move the form into a function of its own");
        }
    }

    fn route_if(&mut self, test: ExprIf, wrapped: bool) -> Option<Route> {
        let mut conditions = Vec::new();
        let mut arms = Vec::new();
        let mut next = test;
        loop {
            refuse_await_in_choice(&next.cond, self.errors);
            let name = if arms.is_empty() { "then".to_owned() } else { format!("else_if_{}", arms.len()) };
            let binds = binds_of_condition(&next.cond);
            arms.push(self.arm(name, binds, Vec::new(), next.then_branch, wrapped));
            conditions.push(*next.cond);
            match next.else_branch.map(|(_, other)| *other) {
                Some(Expr::If(other)) => next = other,
                Some(Expr::Block(other)) => {
                    arms.push(self.arm("else".to_owned(), Vec::new(), Vec::new(), other.block, wrapped));
                    return Some(Route { head: Head::If(conditions), arms });
                }
                _ => {
                    self.errors.at(next.if_token, "an `if` in a workflow has a value; add an `else`");
                    return None;
                }
            }
        }
    }

    fn route_match(&mut self, mut cases: ExprMatch, wrapped: bool) -> Option<Route> {
        refuse_await_in_choice(&cases.expr, self.errors);
        if cases.arms.is_empty() {
            self.errors.at(cases.match_token, "a `match` in a workflow has a value; add an arm");
            return None;
        }
        let mut names = NodeNames::default();
        let mut arms = Vec::new();
        for arm in &mut cases.arms {
            if let Pat::Guard(guard) = &arm.pat {
                refuse_await_in_choice(&guard.guard, self.errors);
            }
            let name = names.free(&arm_name(&arm.pat));
            let binds = binds(unguarded(&arm.pat));
            let mut before = std::mem::take(&mut arm.attrs);
            let block = match &*arm.body {
                Expr::Block(block) if block.label.is_none() => {
                    before.extend(block.attrs.clone());
                    block.block.clone()
                }
                body => {
                    let brace = syn::token::Brace(body.span());
                    Block { brace_token: brace, stmts: vec![Stmt::Expr(body.clone(), None)] }
                }
            };
            let attrs::StatementAttrs { ours, others, .. } = attrs::read(before, self.errors);
            if let Some(attribute) = ours {
                self.errors.at(attribute, "an arm is not a node; move this to a step in the arm");
            }
            arm.attrs.clone_from(&others);
            let lints = others.into_iter().filter(attrs::is_lint).collect();
            arms.push(self.arm(name, binds, lints, block, wrapped));
        }
        Some(Route { head: Head::Match(cases), arms })
    }

    fn arm(&mut self, name: String, binds: Vec<Ident>, lints: Vec<Attribute>, block: Block, wrapped: bool) -> Arm {
        let outside = self.scope.len();
        self.scope.extend(binds.iter().map(|ident| (ident.unraw().to_string(), false)));
        let end = block.brace_token.span.close();
        let body = self.seq(block.stmts, end, wrapped, NodeNames::default());
        self.scope.truncate(outside);
        Arm { name, binds, lints, body }
    }
}

impl Node {
    fn tail(work: Work, span: Span, wrapped: bool) -> Self {
        let (name, calls) = (String::new(), String::new());
        let (policy, attrs) = (Policy::default(), Vec::new());
        Self { name, pat: None, ty: None, attrs, calls, policy, span, wrapped, work }
    }
}

fn refuse_await_in_choice(expr: &Expr, errors: &mut Errors) {
    if let Some(span) = awaits(expr) {
        errors.at_span(span, "a condition cannot await; bind this step to a `let` before it");
    }
}

fn default_name(work: &Work) -> String {
    match work {
        Work::Step(expr) | Work::Future(expr) => called(expr),
        Work::Value(_) => "yield".to_owned(),
        Work::Route(route) => match route.head {
            Head::If(_) => "if".to_owned(),
            Head::Match(_) => "match".to_owned(),
        },
        Work::Gate { .. } => "gate".to_owned(),
        Work::Map { step, .. } | Work::Repeat { step, .. } => called(&step.step),
        Work::Race(_) => "race".to_owned(),
        Work::Fallback(_) => "fallback".to_owned(),
    }
}

fn typed(pat: Pat) -> (Pat, Option<Type>) {
    match pat {
        Pat::Type(typed) => (*typed.pat, Some(*typed.ty)),
        pat => (pat, None),
    }
}
