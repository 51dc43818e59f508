//! Reads a body: classifies each `let` and statement as a step, a value or a check, and finds the
//! output. `choices` reads choices, `forms` reads forms, and `refuse` reports unsupported code. It
//! does not generate code.

use proc_macro2::Span;
use quote::quote;
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Block, Expr, Item, ItemMacro, Local, Pat, Stmt, Type};

use super::model::{Branch, BranchBody, Input, Node, Policy, Seq, Statement, Work};
use super::names::NodeNames;
use super::stable::{calls_methods, is_view, partial_view};
use super::syntax::{
    awaits, block_has_nodes, called, calls, diverges, form, form_within, future, has_nodes, in_ok,
    is_form, is_route, leaves, macro_diverges, plain,
};
use super::{attrs, forms, loops, refuse};
use crate::errors::Errors;
use crate::patterns::{self, as_name};
use crate::scope;

/// Reads the body. Also returns the number of mistakes that are refused statements and control
/// flow.
pub(super) fn body(block: Block, inputs: &[Input], errors: &mut Errors) -> (Seq, usize) {
    let mut block = block;
    loops::keep_groups(&mut block);
    let flow = errors.len();
    let mut reader = Reader {
        errors,
        scope: Vec::new(),
        borrowed: Vec::new(),
        reported: Vec::new(),
        flow,
        parts: 0,
    };
    let mut names = NodeNames::default();
    for input in inputs {
        names.input(input.ident.unraw().to_string());
        reader.scope.push((input.ident.unraw().to_string(), true));
    }
    let end = block.brace_token.span.close();
    let seq = reader.seq(block.stmts, end, Value::OfWorkflow { top: true }, names);
    (seq, reader.flow)
}

pub(super) struct Reader<'e> {
    pub(super) errors: &'e mut Errors,
    /// Names in scope. The flag is `true` for names of nodes.
    pub(super) scope: Vec<(String, bool)>,
    /// Indices in `scope` of names that are references by their pattern.
    pub(super) borrowed: Vec<usize>,
    /// Names with a reported mistake: declared without a value or as `mut`.
    pub(super) reported: Vec<String>,
    /// Number of mistakes that are refused statements and control flow.
    flow: usize,
    /// Number of expression parts that were bound to generated names.
    pub(super) parts: usize,
}

/// The kind of value that straight-line code ends with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    /// The workflow's `Result`.
    OfWorkflow { top: bool },
    /// A value. Without a last expression it is `()`.
    Plain,
    /// No value, as for a statement.
    Nothing,
    /// The body of a form: a value, or a `Result` of it.
    OfForm,
}

impl Value {
    pub(super) fn is_wrapped(self) -> bool {
        matches!(self, Self::OfWorkflow { .. })
    }
}

impl Reader<'_> {
    pub(super) fn seq(
        &mut self,
        mut statements: Vec<Stmt>,
        end: Span,
        value: Value,
        mut names: NodeNames,
    ) -> Seq {
        let outside = self.scope.len();
        let tail = self.take_tail(&mut statements, end, value);
        let (mut items, mut all) = (Vec::<Item>::new(), Vec::new());
        for statement in statements {
            match statement {
                Stmt::Local(local) => self.binding(local, &mut names, &mut all),
                Stmt::Item(Item::Macro(rules)) if self.is_read_by(&rules) => {
                    all.push(Statement::Rules(rules));
                }
                Stmt::Item(item) => items.push(item),
                Stmt::Expr(expr, _) => self.statement(expr, &mut names, &mut all),
                Stmt::Macro(mac) => {
                    let mac = Expr::Macro(syn::ExprMacro { attrs: mac.attrs, mac: mac.mac });
                    self.statement(mac, &mut names, &mut all);
                }
            }
        }
        let mut tail = match tail {
            Some(expr) => self.tail(expr, value, Vec::new(), &mut names, &mut all),
            None => Node::tail(Work::Value(syn::parse_quote!(())), end, false),
        };
        let tail_name = if value == (Value::OfWorkflow { top: true }) { "output" } else { "yield" };
        names.rest(&mut all, &mut tail, tail_name);
        self.leave(outside);
        Seq { items, statements: all, tail: Box::new(tail) }
    }

    /// Returns `true` if the rules of a macro use variables of the body.
    fn is_read_by(&self, rules: &ItemMacro) -> bool {
        let names = scope::names_read_by_macro(&rules.mac);
        rules.ident.is_some() && self.scope.iter().any(|(name, _)| names.contains(name))
    }

    /// Removes the names of a scope that has ended.
    pub(super) fn leave(&mut self, outside: usize) {
        self.scope.truncate(outside);
        self.borrowed.retain(|at| *at < outside);
    }

    fn take_tail(&mut self, statements: &mut Vec<Stmt>, end: Span, value: Value) -> Option<Expr> {
        match statements.pop() {
            // At the end of the workflow, `return x;` is the same as `x`.
            Some(Stmt::Expr(Expr::Return(returned), _))
                if value.is_wrapped() && returned.expr.is_some() =>
            {
                returned.expr.map(|expr| *expr)
            }
            Some(Stmt::Expr(expr, None)) if value.is_wrapped() || !is_unit(&expr) => Some(expr),
            // An arm that ends in an error after its steps.
            Some(Stmt::Expr(expr, _)) if diverges(&expr) => Some(expr),
            Some(Stmt::Macro(mac)) if macro_diverges(&mac.mac) => {
                Some(Expr::Macro(syn::ExprMacro { attrs: mac.attrs, mac: mac.mac }))
            }
            Some(Stmt::Macro(mac)) if mac.semi_token.is_none() => {
                Some(Expr::Macro(syn::ExprMacro { attrs: mac.attrs, mac: mac.mac }))
            }
            Some(last) if value.is_wrapped() && is_last(&last) => match last {
                Stmt::Expr(expr, _) => Some(expr),
                Stmt::Macro(mac) => {
                    Some(Expr::Macro(syn::ExprMacro { attrs: mac.attrs, mac: mac.mac }))
                }
                _ => None,
            },
            last => {
                statements.extend(last);
                if value.is_wrapped() {
                    let message = "a workflow ends with its output; add `Ok(..)` here, or a last step such as `step(x).await`";
                    self.errors.at_span(end, message);
                }
                None
            }
        }
    }

    /// Reads a `let`.
    fn binding(&mut self, mut local: Local, names: &mut NodeNames, out: &mut Vec<Statement>) {
        let mut before = std::mem::take(&mut local.attrs);
        let Some(init) = &mut local.init else {
            self.errors.at(
                &local,
                "a `let` in a workflow needs a value; add `= ..`, as in `let x = if .. { .. } else { .. };`",
            );
            self.reported.extend(patterns::names(&local.pat).iter().map(ToString::to_string));
            return;
        };
        let diverge = init.diverge.take().map(|(_, diverge)| *diverge);
        let mut expr = (*init.expr).clone();
        if has_nodes(&expr) || is_form(&expr) {
            before.extend(attrs::off(&mut expr));
        }
        let given = attrs::read(before, self.errors);
        self.check_after(&given.policy);
        let (pat, ty) = typed(local.pat.clone());
        if let Some(diverge) = diverge {
            return self.let_else((pat, ty), expr, diverge, given, names, out);
        }
        let binds_nothing = matches!(pat, Pat::Wild(_));
        if self.is_node(&expr) {
            return self.node((pat, ty), expr, given, names, out);
        }
        if binds_nothing {
            // `let _` drops every value, including `#[must_use]` values.
            refuse::spawned(&expr, self.errors);
            let (span, calls) = (expr.span(), calls(&expr));
            let ty = ty.map(|ty| quote!(: #ty));
            let dropped = syn::parse_quote_spanned!(span=> { let _ #ty = #expr; });
            return self.push_statement(Work::Check(dropped), calls, given, span, names, out);
        }
        if is_view(&expr) && given.ours.is_none() && !is_mutable(&pat) {
            if calls_methods(&expr) && !given.others.iter().any(attrs::is_cfg) {
                return self.look((pat, ty), expr, given.others, out);
            }
            local.attrs = given.others;
            if let (Expr::Reference(whole), Pat::Ident(_)) = (plain(&expr), &pat)
                && loops::root(&whole.expr).is_some()
            {
                self.borrowed.push(self.scope.len());
            }
            self.scope.extend(
                patterns::names(&local.pat).iter().map(|ident| (ident.unraw().to_string(), false)),
            );
            return out.push(Statement::View(local));
        }
        if given.ours.is_none()
            && let Some(partial) = partial_view(&expr)
        {
            return self.partial_view((pat, ty), expr, partial, given, names, out);
        }
        refuse::value(&expr, self.errors);
        refuse::borrowed(ty.as_ref(), self.errors);
        self.node((pat, ty), expr, given, names, out);
    }

    /// Returns `true` if an expression becomes a node: a step, a form, or a choice with steps.
    fn is_node(&self, expr: &Expr) -> bool {
        awaits(expr).is_some() || is_form(expr) || leaves(expr).is_some()
    }

    /// Reads a node that is bound to a pattern.
    pub(super) fn node(
        &mut self,
        (pat, ty): (Pat, Option<Type>),
        expr: Expr,
        given: attrs::StatementAttrs,
        names: &mut NodeNames,
        out: &mut Vec<Statement>,
    ) {
        let attrs::StatementAttrs { mut policy, ours, others } = given;
        let span = expr.span();
        let conditional = others.iter().any(attrs::is_cfg);
        let Some((work, calls)) = self.work(expr, Value::Plain, &mut policy, out) else { return };
        self.check_policy(&policy, &work, ours.as_ref());
        refuse::mutable(&pat, &mut self.reported, self.errors);
        let bound = patterns::names(&pat);
        if conditional && !matches!(pat, Pat::Ident(_) | Pat::Wild(_)) {
            self.errors.at(
                &pat,
                "a pattern cannot be conditional in a workflow; bind the whole value under `#[cfg(..)]`, and \
                 destructure it in the next `let`",
            );
        }
        let words: Vec<String> = bound.iter().map(|ident| ident.unraw().to_string()).collect();
        let words = words.join("_");
        let name = match &policy.id {
            Some(id) => {
                names.given(id, &ours, conditional, self.errors);
                id.clone()
            }
            None if words.trim_start_matches('_').is_empty() => String::new(),
            None => names.bound(&words, &calls, conditional),
        };
        self.scope.extend(bound.iter().map(|ident| (ident.unraw().to_string(), true)));
        // A step whose output cannot be read is executed for its side effects.
        policy.write |=
            matches!(pat, Pat::Wild(_)) && matches!(work, Work::Step(_) | Work::Future(_));
        let leaves = work.leaves();
        let pat = Some(pat);
        let node = Node {
            name,
            pat,
            ty,
            attrs: others,
            calls,
            policy,
            span,
            wrapped: false,
            leaves,
            is_statement: false,
            is_part: false,
            work,
        };
        out.push(Statement::Node(node));
    }

    /// Reads a statement that is not a `let`.
    fn statement(&mut self, mut expr: Expr, names: &mut NodeNames, out: &mut Vec<Statement>) {
        let before = attrs::off(&mut expr);
        let given = attrs::read(before, self.errors);
        self.check_after(&given.policy);
        let errors = self.errors.len();
        let is_rust = refuse::statement(&expr, &self.reported, self.errors);
        if self.errors.len() > errors {
            self.flow += if is_rust { self.errors.len() - errors } else { 0 };
            return;
        }
        if let Expr::ForLoop(repeated) = plain(&expr)
            && block_has_nodes(&repeated.body)
            && !loops::leaves_rounds(&repeated.body)
        {
            let work = self.each(repeated.clone());
            return self.push_statement(work, String::new(), given, expr.span(), names, out);
        }
        if !self.is_node(&expr) {
            return self.check(expr, given, names, out);
        }
        let span = expr.span();
        let attrs::StatementAttrs { mut policy, ours, others } = given;
        let Some((work, calls)) = self.work(expr, Value::Nothing, &mut policy, out) else { return };
        policy.write |= matches!(work, Work::Step(_) | Work::Future(_));
        let given = attrs::StatementAttrs { policy, ours, others };
        self.push_statement(work, calls, given, span, names, out);
    }

    fn push_statement(
        &mut self,
        work: Work,
        calls: String,
        given: attrs::StatementAttrs,
        span: Span,
        names: &mut NodeNames,
        out: &mut Vec<Statement>,
    ) {
        let attrs::StatementAttrs { policy, ours, others } = given;
        self.check_policy(&policy, &work, ours.as_ref());
        let conditional = others.iter().any(attrs::is_cfg);
        let name = policy.id.clone().unwrap_or_default();
        if !name.is_empty() {
            names.given(&name, &ours, conditional, self.errors);
        }
        let leaves = work.leaves();
        let is_statement = matches!(work, Work::Step(_));
        let rest = Node::tail(work, span, false);
        out.push(Statement::Node(Node {
            name,
            calls,
            policy,
            attrs: others,
            leaves,
            is_statement,
            ..rest
        }));
    }

    /// Reads an expression without a step that binds nothing.
    pub(super) fn check(
        &mut self,
        expr: Expr,
        given: attrs::StatementAttrs,
        names: &mut NodeNames,
        out: &mut Vec<Statement>,
    ) {
        refuse::spawned(&expr, self.errors);
        let span = expr.span();
        let calls = calls(&expr);
        self.push_statement(Work::Check(expr), calls, given, span, names, out);
    }

    /// Reads the last expression of the body or an arm. `before` contains the attributes of a
    /// surrounding expression.
    fn tail(
        &mut self,
        mut expr: Expr,
        value: Value,
        mut before: Vec<Attribute>,
        names: &mut NodeNames,
        out: &mut Vec<Statement>,
    ) -> Node {
        before.extend(attrs::off(&mut expr));
        // The form unwraps a `Result`, as `?` does.
        let of_form =
            value == Value::OfForm && matches!(plain(&expr), Expr::Await(_)) && !is_form(&expr);
        if value == Value::OfForm && !of_form {
            expr = unwrapped(expr);
        }
        let wrapped = value.is_wrapped();
        let span = expr.span();
        // `Ok(inner)`: `inner` is read like the last expression of an arm.
        if wrapped
            && let Some(inner) = in_ok(&expr)
            && (is_route(inner) || is_form(inner))
            && has_nodes(inner)
        {
            return self.tail(inner.clone(), Value::Plain, before, names, out);
        }
        let given = attrs::read(before, self.errors);
        self.check_after(&given.policy);
        let attrs::StatementAttrs { mut policy, ours, others } = given;
        if let Some(attribute) = others.iter().find(|attr| attrs::is_cfg(attr)) {
            let message = "the end of a workflow cannot be conditional; bind it to a `let` under `#[cfg(..)]`, once for \
                           each case";
            self.errors.at(attribute, message);
        }
        if !self.is_node(&expr) {
            if let Some(attribute) = ours {
                self.errors.at(
                    attribute,
                    "these options are for a node, and nothing is awaited here; remove them",
                );
            }
            let work = if diverges(&expr) { Work::Never(expr) } else { Work::Value(expr) };
            return Node { attrs: others, ..Node::tail(work, span, wrapped) };
        }
        if of_form && policy.route.is_some() {
            expr = tried(expr);
        }
        match self.work(expr, value, &mut policy, out) {
            Some((work, calls)) => {
                let work = if of_form { awaited_by_form(work) } else { work };
                self.check_policy(&policy, &work, ours.as_ref());
                let name = policy.id.clone().unwrap_or_default();
                if !name.is_empty() {
                    names.given(&name, &ours, false, self.errors);
                }
                Node {
                    name,
                    attrs: others,
                    policy,
                    calls,
                    leaves: work.leaves(),
                    ..Node::tail(work, span, wrapped)
                }
            }
            None => Node::tail(Work::Value(syn::parse_quote!(())), span, false),
        }
    }

    /// Determines the kind of node that an expression is. Parts of it that must be computed first
    /// are added to `out`.
    pub(super) fn work(
        &mut self,
        expr: Expr,
        value: Value,
        policy: &mut Policy,
        out: &mut Vec<Statement>,
    ) -> Option<(Work, String)> {
        let wrapped = value.is_wrapped();
        if let Some(route) = self.choice(&expr, value, out) {
            return route.map(|(route, calls)| (Work::Route(route), calls));
        }
        if let Some(span) = leaves(&expr) {
            self.errors.at_span(span, refuse::RETURN);
            return None;
        }
        if let Expr::Macro(mac) = future(&expr)
            && let Some(name) = form(&mac.mac)
        {
            self.check_awaited(&expr, &name, wrapped);
            let work = forms::read(self, &name, &mac.mac, policy)?;
            let calls = forms::calls_of(&work);
            return Some((work, calls));
        }
        refuse::spawned(&expr, self.errors);
        if let Some(mac) = form_within(&expr) {
            let name = form(mac).unwrap_or_default();
            self.errors.at(
                &mac.path,
                format!("a form is a node of its own; bind it before, as in `let answer = {name}!(..).await?;`"),
            );
            return None;
        }
        let calls = calls(&expr);
        if let Some(instead) = policy.route.take() {
            let name = as_name(&called(&expr));
            let span = expr.span();
            // A branch returns a value; the last expression of a workflow is a `Result` of it.
            let step = match (plain(&expr), in_ok(&expr)) {
                (_, Some(inner)) if wrapped => BranchBody::Whole(inner.clone()),
                (Expr::Await(awaited), _) if wrapped => BranchBody::Future((*awaited.base).clone()),
                _ if wrapped => {
                    self.errors.at(&expr, "`on_error = route(..)` needs a single call; bind this one to a `let` first");
                    return None;
                }
                _ => BranchBody::Whole(expr),
            };
            let first = Branch { name, span, step };
            return Some((Work::Fallback(vec![first, forms::branch(self, instead)]), calls));
        }
        let is_step = awaits(&expr).is_some();
        Some((if is_step { Work::Step(expr) } else { Work::Value(expr) }, calls))
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
}

impl Node {
    pub(super) fn tail(work: Work, span: Span, wrapped: bool) -> Self {
        let (name, calls) = (String::new(), String::new());
        let (policy, attrs) = (Policy::default(), Vec::new());
        let leaves = work.leaves();
        Self {
            name,
            pat: None,
            ty: None,
            attrs,
            calls,
            policy,
            span,
            wrapped,
            leaves,
            is_statement: false,
            is_part: false,
            work,
        }
    }
}

impl Work {
    /// Returns `true` if an arm of the choice ends the workflow.
    fn leaves(&self) -> bool {
        let Self::Route(route) = self else { return false };
        let in_body = |seq: &Seq| {
            let inner = seq
                .statements
                .iter()
                .any(|one| matches!(one, Statement::Node(node) if node.leaves));
            inner || seq.tail.leaves
        };
        route.arms.iter().any(|arm| arm.returns || in_body(&arm.body))
    }
}

/// Returns the last expression of a form's body as a value: `Ok(x)` becomes `x`, and a form gets
/// its `?`.
fn unwrapped(expr: Expr) -> Expr {
    if let Some(inner) = in_ok(&expr) {
        return inner.clone();
    }
    match plain(&expr) {
        Expr::Await(_) => tried(expr),
        _ => expr,
    }
}

fn tried(expr: Expr) -> Expr {
    syn::parse_quote_spanned!(expr.span()=> #expr?)
}

/// Converts the last step of a form's body into a future, which the form awaits.
fn awaited_by_form(work: Work) -> Work {
    match work {
        Work::Step(expr) => match plain(&expr) {
            Expr::Await(awaited) => Work::Future((*awaited.base).clone()),
            _ => Work::Step(expr),
        },
        other => other,
    }
}

/// Returns `true` if the last statement of a workflow's body ends it although it has a semicolon,
/// or if it is a choice in which every arm ends it.
fn is_last(statement: &Stmt) -> bool {
    match statement {
        Stmt::Expr(expr, _) => diverges(expr) || is_choice_of_ends(expr),
        Stmt::Macro(mac) => {
            diverges(&Expr::Macro(syn::ExprMacro { attrs: Vec::new(), mac: mac.mac.clone() }))
        }
        _ => false,
    }
}

pub(super) fn is_choice_of_ends(expr: &Expr) -> bool {
    let block_ends = |block: &Block| {
        block
            .stmts
            .last()
            .is_some_and(|last| matches!(last, Stmt::Expr(Expr::Return(_), _)) || is_last(last))
    };
    match expr {
        Expr::Return(_) => true,
        Expr::If(test) => {
            let other = test.else_branch.as_ref().map(|(_, other)| &**other);
            block_ends(&test.then_branch)
                && other.is_some_and(|other| match other {
                    Expr::Block(block) => block_ends(&block.block),
                    other => is_choice_of_ends(other),
                })
        }
        Expr::Match(cases) => cases.arms.iter().all(|arm| match &*arm.body {
            Expr::Block(block) => block_ends(&block.block),
            body => is_choice_of_ends(body) || diverges(body),
        }),
        _ => false,
    }
}

/// Returns `true` if an expression at the end of a block has no value, like a `for` or an `if`
/// without `else`.
fn is_unit(expr: &Expr) -> bool {
    match expr {
        Expr::ForLoop(_) | Expr::While(_) | Expr::Assign(_) | Expr::Return(_) => true,
        Expr::If(test) => match &test.else_branch {
            None => true,
            Some((_, other)) => is_unit(other),
        },
        _ => false,
    }
}

fn is_mutable(pat: &Pat) -> bool {
    matches!(pat, Pat::Ident(pat) if pat.mutability.is_some())
}

fn typed(pat: Pat) -> (Pat, Option<Type>) {
    match pat {
        Pat::Type(typed) => (*typed.pat, Some(*typed.ty)),
        pat => (pat, None),
    }
}
