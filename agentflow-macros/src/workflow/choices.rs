//! Reads choices: `if`, `match` and `let .. else` whose arms contain steps or end the workflow. A
//! matched value is computed once, before the choice. It does not generate code.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Block, Expr, ExprGroup, ExprIf, ExprMatch, ExprParen, ExprTry, Pat, Stmt, Type};

use super::attrs;
use super::body::{Reader, Value, is_choice_of_ends};
use super::model::{Arm, Node, Route, RouteHead, Seq, Statement, Work};
use super::names::NodeNames;
use super::refuse;
use super::stable::{PartialView, calls_methods, is_stable};
use super::syntax::{
    awaits, block_diverges, block_has_nodes, calls, diverges, has_nodes, leaves, macro_diverges,
    plain, written,
};
use crate::patterns::{
    self, arm_name, binds, has_bindings, mutable, patterns_of, uncertain, unguarded,
};

impl Reader<'_> {
    /// Reads a choice whose arms contain steps. Returns `None` for every other expression,
    /// including a choice that is one step or one value as a whole. Returns `Some(None)` if its
    /// mistakes have been reported.
    pub(super) fn choice(
        &mut self,
        expr: &Expr,
        value: Value,
        out: &mut Vec<Statement>,
    ) -> Option<Option<(Route, String)>> {
        match plain(expr) {
            Expr::If(test) if has_arms_of_nodes_if(test) => {
                let calls = format!("if {}", written(&test.cond));
                Some(self.route_if(test.clone(), value, out).map(|route| (route, calls)))
            }
            Expr::Match(cases) if has_arms_of_nodes(cases) => {
                let calls = format!("match {}", written(&cases.expr));
                Some(self.route_match(cases.clone(), value, out).map(|route| (route, calls)))
            }
            _ => None,
        }
    }

    fn route_if(&mut self, test: ExprIf, value: Value, out: &mut Vec<Statement>) -> Option<Route> {
        let mut conditions = Vec::new();
        let mut arms = Vec::new();
        let mut next = test;
        loop {
            let head = ArmHead::from_if(&next);
            let condition = self.condition(*next.cond, head.uncertain, out);
            let name =
                if arms.is_empty() { "then".to_owned() } else { format!("else_if_{}", arms.len()) };
            arms.push(self.arm(ArmHead { name, ..head }, next.then_branch, value));
            conditions.push(condition);
            let other = next.else_branch.map(|(_, other)| *other);
            match other {
                // A condition that awaits may only be evaluated if the conditions before it are
                // false.
                Some(Expr::If(other))
                    if !needs_computing(&other.cond, ArmHead::from_if(&other).uncertain) =>
                {
                    next = other;
                }
                Some(Expr::If(other)) => {
                    let other = block_of(Expr::If(other));
                    arms.push(self.arm(ArmHead::named("else"), other, value));
                    break;
                }
                Some(Expr::Block(other)) => {
                    arms.push(self.arm(ArmHead::named("else"), other.block, value));
                    break;
                }
                _ if value.is_wrapped() => {
                    self.errors.at(
                        next.if_token,
                        "an `if` at the end of a workflow gives its output; add an `else`",
                    );
                    return None;
                }
                _ if value == Value::Plain => {
                    self.errors
                        .at(next.if_token, "an `if` without `else` has no value; add an `else`");
                    return None;
                }
                _ => {
                    let empty = Block {
                        brace_token: syn::token::Brace(next.if_token.span),
                        stmts: Vec::new(),
                    };
                    arms.push(self.arm(ArmHead::named("else"), empty, Value::Plain));
                    break;
                }
            }
        }
        Some(Route { head: RouteHead::If(conditions), arms })
    }

    /// Replaces the parts of a condition that are computed once in nodes before it. `binds` is
    /// `true` if its patterns bind names.
    fn condition(&mut self, condition: Expr, binds: bool, out: &mut Vec<Statement>) -> Expr {
        match condition {
            Expr::Let(mut test) => {
                if binds || has_bindings(&test.pat) || awaits(&test.expr).is_some() {
                    *test.expr = self.computed_before(*test.expr, out);
                }
                Expr::Let(test)
            }
            Expr::Binary(mut both)
                if matches!(both.op, syn::BinOp::And(_))
                    && holds_let(&Expr::Binary(both.clone())) =>
            {
                *both.left = self.condition(*both.left, binds, out);
                refuse::later_condition(&both.right, self.errors);
                Expr::Binary(both)
            }
            // A condition in parentheses may start with a struct literal.
            Expr::Paren(mut paren) if awaits(&paren.expr).is_none() => {
                *paren.expr = self.condition(*paren.expr, binds, out);
                Expr::Paren(paren)
            }
            Expr::Paren(paren) => self.condition(*paren.expr, binds, out),
            condition if awaits(&condition).is_some() => {
                // Computed as a whole, because the right side of `&&` or `||` is not always
                // awaited.
                match self.part(condition.clone(), out) {
                    Some(name) => syn::parse_quote!(#name),
                    None => condition,
                }
            }
            condition => condition,
        }
    }

    /// Computes a whole expression before the choice.
    fn part(&mut self, expr: Expr, out: &mut Vec<Statement>) -> Option<Ident> {
        // A block is never stable. It is constructed and not parsed, because `match .. {} > 2` at
        // the start of a block would be a statement.
        let block = block_of(expr.clone());
        let whole = Expr::Block(syn::ExprBlock { attrs: Vec::new(), label: None, block });
        let computed = self.computed_before(whole, out);
        if let Some(Statement::Node(node)) = out.last_mut()
            && let Work::Step(step) = &mut node.work
        {
            (node.calls, *step) = (calls(&expr), expr);
        }
        match computed {
            Expr::Path(path) => path.path.get_ident().cloned(),
            _ => None,
        }
    }

    fn route_match(
        &mut self,
        mut cases: ExprMatch,
        value: Value,
        out: &mut Vec<Statement>,
    ) -> Option<Route> {
        let binds_any = |arm: &syn::Arm| !ArmHead::of_arm(arm).binds.is_empty();
        if cases.arms.iter().any(binds_any) || awaits(&cases.expr).is_some() {
            *cases.expr = self.computed_before(*cases.expr, out);
        }
        if cases.arms.is_empty() {
            self.errors.at(cases.match_token, "a `match` in a workflow has a value; add an arm");
            return None;
        }
        let mut names = NodeNames::default();
        let mut arms = Vec::new();
        for arm in &mut cases.arms {
            refuse::guard(&arm.pat, self.errors);
            let head = ArmHead::of_arm(arm);
            let mut before = std::mem::take(&mut arm.attrs);
            let block = match &*arm.body {
                Expr::Block(block) if block.label.is_none() => {
                    before.extend(block.attrs.clone());
                    block.block.clone()
                }
                body => block_of(body.clone()),
            };
            let attrs::StatementAttrs { ours, others, .. } = attrs::read(before, self.errors);
            if let Some(attribute) = ours {
                self.errors.at(attribute, "an arm is not a node; move this to a step in the arm");
            }
            arm.attrs.clone_from(&others);
            let (cfgs, others): (Vec<_>, Vec<_>) = others.into_iter().partition(attrs::is_cfg);
            let name = match cfgs.is_empty() {
                true => names.free(&arm_name(&arm.pat)),
                false => arm_name(&arm.pat),
            };
            let lints =
                others.into_iter().filter(attrs::is_lint).map(attrs::before_statement).collect();
            arms.push(self.arm(ArmHead { name, cfgs, lints, ..head }, block, value));
        }
        Some(Route { head: RouteHead::Match(cases), arms })
    }

    fn arm(&mut self, head: ArmHead, mut block: Block, value: Value) -> Arm {
        let ArmHead { name, binds, mutable, uncertain, cfgs, lints } = head;
        let outside = self.scope.len();
        self.scope.extend(binds.iter().map(|ident| (ident.unraw().to_string(), false)));
        let end = block.brace_token.span.close();
        let whole_diverges = block_diverges(&block) && !block_has_nodes(&block);
        let mut returns = false;
        let body = if whole_diverges {
            let span = block.brace_token.span.join();
            let whole = Expr::Block(syn::ExprBlock { attrs: Vec::new(), label: None, block });
            let mut tail = Node::tail(Work::Never(whole), span, false);
            tail.name = "yield".to_owned();
            Seq { items: Vec::new(), statements: Vec::new(), tail: Box::new(tail) }
        } else {
            if !value.is_wrapped()
                && let Some(Stmt::Expr(Expr::Return(returned), _)) = block.stmts.last()
                && leaves(&Expr::Return(returned.clone())).is_some()
            {
                returns = true;
            }
            let value = match returns {
                true => Value::OfWorkflow { top: false },
                false => inner(value),
            };
            // `return Err(..)` after steps.
            if !value.is_wrapped()
                && let Some(Stmt::Expr(last, semi @ Some(_))) = block.stmts.last_mut()
                && diverges(last)
            {
                *semi = None;
            }
            self.seq(block.stmts, end, value, NodeNames::default())
        };
        self.scope.truncate(outside);
        Arm { name, binds, mutable, uncertain, cfgs, lints, returns, body }
    }

    /// Reads a `let` of a view that may be missing. A check verifies once that it is present, and
    /// each reader computes the view again.
    pub(super) fn partial_view(
        &mut self,
        (pat, ty): (Pat, Option<Type>),
        expr: Expr,
        partial: PartialView,
        given: attrs::StatementAttrs,
        names: &mut NodeNames,
        out: &mut Vec<Statement>,
    ) {
        refuse::mutable(&pat, &mut self.reported, self.errors);
        let (span, others) = (expr.span(), given.others.clone());
        let ty = ty.map(|ty| quote!(: #ty));
        let expr = self.looked_into(expr, out);
        let mut views: Vec<Stmt> = Vec::new();
        let check = match partial {
            PartialView::Unwrapped => {
                views.push(syn::parse_quote!(#(#others)* let #pat #ty = #expr;));
                syn::parse_quote_spanned!(span=> assert!({ let _ = #expr; true }))
            }
            PartialView::Tried { of } => {
                let view = tried_view(&expr, of);
                self.parts += 1;
                let part = format_ident!(
                    "agentflow_view_{}",
                    self.parts,
                    span = span.resolved_at(Span::mixed_site())
                );
                self.scope.push((part.to_string(), false));
                let of = format_ident!("{of}", span = Span::mixed_site());
                views.push(syn::parse_quote_spanned!(span=> let #of(#part) = #view else {};));
                views.push(syn::parse_quote!(#(#others)* let #pat #ty = #part;));
                syn::parse_quote_spanned!(span=> { let _ = #expr; })
            }
        };
        self.check(check, given, names, out);
        self.scope
            .extend(patterns::names(&pat).iter().map(|ident| (ident.unraw().to_string(), false)));
        out.extend(views.into_iter().filter_map(|view| match view {
            Stmt::Local(view) => Some(Statement::View(view)),
            _ => None,
        }));
    }

    /// Replaces the receiver of the last method with a name.
    fn looked_into(&mut self, mut expr: Expr, out: &mut Vec<Statement>) -> Expr {
        match &mut expr {
            Expr::Try(ExprTry { expr: inner, .. })
            | Expr::Paren(ExprParen { expr: inner, .. })
            | Expr::Group(ExprGroup { expr: inner, .. }) => {
                **inner = self.looked_into(std::mem::replace(&mut **inner, Expr::PLACEHOLDER), out);
            }
            Expr::MethodCall(call) => {
                *call.receiver =
                    self.looked(std::mem::replace(&mut *call.receiver, Expr::PLACEHOLDER), out);
            }
            _ => {}
        }
        expr
    }

    /// Reads `let pattern = value else { .. };`.
    pub(super) fn let_else(
        &mut self,
        (pat, ty): (Pat, Option<Type>),
        expr: Expr,
        diverge: Expr,
        given: attrs::StatementAttrs,
        names: &mut NodeNames,
        out: &mut Vec<Statement>,
    ) {
        refuse::mutable(&pat, &mut self.reported, self.errors);
        if has_nodes(&diverge) && !ends(&diverge) {
            self.errors.at(
                &diverge,
                "what is below reads what this pattern binds, so this `else` must not reach it; end it with `return ..`",
            );
            return;
        }
        if is_stable(&expr) {
            let expr = self.looked(expr, out);
            // The pattern binds parts of an existing value. A check matches it once, and each
            // reader matches it again.
            let whole: Expr = match has_nodes(&diverge) {
                true => {
                    syn::parse_quote_spanned!(pat.span()=> match #expr { #[allow(unused_variables)] #pat => {} _ => #diverge })
                }
                false => {
                    syn::parse_quote_spanned!(pat.span()=> { let #pat = #expr else #diverge; })
                }
            };
            match has_nodes(&diverge) {
                true => self.node((syn::parse_quote!(_), None), whole, given, names, out),
                false => self.check(whole, given, names, out),
            }
            self.scope
                .extend(patterns::names(&pat).iter().map(|name| (name.unraw().to_string(), false)));
            let Stmt::Local(view) = syn::parse_quote!(let #pat = #expr else #diverge;) else {
                return;
            };
            return out.push(Statement::View(view));
        }
        let bound = binds(&pat);
        let value: Expr = match &bound[..] {
            [one] => syn::parse_quote!(#one),
            all => syn::parse_quote!((#(#all),*)),
        };
        let bound_as: Pat = match &bound[..] {
            [one] => syn::parse_quote!(#one),
            [] => syn::parse_quote!(_),
            all => syn::parse_quote!((#(#all),*)),
        };
        if has_nodes(&diverge) {
            // The `else` has steps or ends the workflow, so the bound values are computed first, if
            // the pattern matches.
            let span = expr.span();
            // In parentheses, because the expression may start with a struct literal.
            let head = Expr::Paren(ExprParen {
                attrs: Vec::new(),
                paren_token: syn::token::Paren(Span::mixed_site()),
                expr: Box::new(expr.clone()),
            });
            let whole: Expr = syn::parse_quote_spanned!(span=> {
                match #head { #pat => ::core::option::Option::Some(#value), _ => ::core::option::Option::None }
            });
            let part = self.part_of(whole, calls(&expr), out);
            let found: Pat = match &bound[..] {
                [] => syn::parse_quote!(::core::option::Option::Some(())),
                _ => syn::parse_quote!(::core::option::Option::Some(#bound_as)),
            };
            return self.let_else((found, None), part, diverge, given, names, out);
        }
        let ty = ty.map(|ty| quote!(: #ty));
        let whole: Expr = syn::parse_quote!({ let #pat #ty = #expr else #diverge; #value });
        self.node((bound_as, None), whole, given, names, out);
    }
}

/// Returns the operand of a `?`: the receiver of `ok_or`, or the `Result` of `context`.
fn tried_view<'e>(expr: &'e Expr, of: &str) -> &'e Expr {
    let Expr::Try(tried) = plain(expr) else { return expr };
    match plain(&tried.expr) {
        Expr::MethodCall(call) if of == "Some" => &call.receiver,
        whole => whole,
    }
}

/// Returns `true` if the `else` of a `let` ends the workflow.
fn ends(diverge: &Expr) -> bool {
    match diverge {
        Expr::Block(block) => block.block.stmts.last().is_some_and(|last| match last {
            Stmt::Macro(mac) => macro_diverges(&mac.mac),
            Stmt::Expr(last, _) => diverges(last) || is_choice_of_ends(last),
            _ => false,
        }),
        _ => false,
    }
}

/// Returns the kind of value of an arm, given the kind of the whole choice.
fn inner(value: Value) -> Value {
    match value {
        Value::OfWorkflow { .. } => Value::OfWorkflow { top: false },
        Value::Plain | Value::OfForm | Value::Nothing => Value::Plain,
    }
}

#[derive(Default)]
struct ArmHead {
    name: String,
    binds: Vec<Ident>,
    mutable: Vec<Ident>,
    uncertain: bool,
    cfgs: Vec<syn::Attribute>,
    lints: Vec<syn::Attribute>,
}

impl ArmHead {
    fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// Collects the names that the condition of an `if` binds.
    fn from_if(test: &ExprIf) -> Self {
        let (condition, block) = (&test.cond, &test.then_branch);
        Self::reading(patterns_of(condition), &quote!(#condition #block))
    }

    /// Collects the names that an arm's pattern and its guard bind.
    fn of_arm(arm: &syn::Arm) -> Self {
        let mut pats = vec![unguarded(&arm.pat)];
        if let Pat::Guard(guard) = &arm.pat {
            pats.extend(patterns_of(&guard.guard));
        }
        Self::reading(pats, &quote!(#arm))
    }

    /// Collects the names that patterns bind. An upper-case name counts as a variable only if the
    /// code of the arm uses it.
    fn reading(pats: Vec<&Pat>, arm: &TokenStream) -> Self {
        let mut head = Self::default();
        for pat in pats {
            for name in binds(pat) {
                if !head.binds.contains(&name) {
                    head.binds.push(name);
                }
            }
            head.mutable.extend(mutable(pat));
            let read: Vec<Ident> =
                uncertain(pat).into_iter().filter(|name| count(arm.clone(), name) > 1).collect();
            head.uncertain |= !read.is_empty();
            head.binds.extend(read);
        }
        head
    }
}

/// Returns the number of occurrences of a word.
fn count(tokens: TokenStream, word: &Ident) -> usize {
    let one = |token| match token {
        TokenTree::Ident(ident) => usize::from(ident == *word),
        TokenTree::Group(group) => count(group.stream(), word),
        _ => 0,
    };
    tokens.into_iter().map(one).sum()
}

fn block_of(expr: Expr) -> Block {
    let brace = syn::token::Brace(expr.span());
    Block { brace_token: brace, stmts: vec![Stmt::Expr(expr, None)] }
}

fn holds_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(both) if matches!(both.op, syn::BinOp::And(_)) => {
            holds_let(&both.left) || holds_let(&both.right)
        }
        _ => false,
    }
}

/// Returns `true` for a condition with parts that must be computed in nodes before it. `binds` is
/// `true` if its patterns bind names.
fn needs_computing(condition: &Expr, binds: bool) -> bool {
    match condition {
        Expr::Let(test) => {
            let computed = !is_stable(&test.expr) || calls_methods(&test.expr);
            awaits(&test.expr).is_some() || (binds || has_bindings(&test.pat)) && computed
        }
        Expr::Binary(both) if holds_let(condition) => {
            needs_computing(&both.left, binds) || needs_computing(&both.right, binds)
        }
        other => awaits(other).is_some(),
    }
}

/// Returns `true` if an arm of an `if` contains a step or an end of the workflow. Otherwise the
/// whole `if` is one step or one value.
fn has_arms_of_nodes_if(test: &ExprIf) -> bool {
    let mut next = test;
    loop {
        if block_has_nodes(&next.then_branch) {
            return true;
        }
        match next.else_branch.as_ref().map(|(_, other)| &**other) {
            // Such a condition is evaluated in an arm.
            Some(Expr::If(other)) if awaits(&other.cond).is_none() => next = other,
            Some(other) => return has_nodes(other),
            None => return false,
        }
    }
}

fn has_arms_of_nodes(cases: &ExprMatch) -> bool {
    cases.arms.iter().any(|arm| has_nodes(&arm.body))
}
