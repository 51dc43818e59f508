//! A workflow as data: inputs, nodes in source order, output. `body` and `attrs` create it,
//! `expand` reads it.

use proc_macro2::{Ident, Span, TokenStream};
use syn::{Attribute, Expr, Item, ItemMacro, LitInt, Local, Pat, Path, Type};

use super::attrs::StartApproval;
use crate::unanswered::TimeoutAction;

pub(super) struct Workflow {
    pub(super) krate: Path,
    pub(super) name: String,
    /// A string expression.
    pub(super) description: TokenStream,
    pub(super) context: Option<ContextParam>,
    pub(super) inputs: Vec<Input>,
    pub(super) output: Type,
    pub(super) concurrency: Option<TokenStream>,
    pub(super) max_llm_calls: Option<LitInt>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) first: StartApproval,
    /// The function that is called before each step.
    pub(super) decider: Option<Path>,
    /// A variant of `StopPolicy`.
    pub(super) stop: Option<Ident>,
    pub(super) body: Seq,
}

/// The first parameter, if it is a reference.
pub(super) struct ContextParam {
    pub(super) ident: Option<Ident>,
    /// The type after the `&`.
    pub(super) ty: Type,
}

pub(super) struct Input {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    /// Lint levels before the input.
    pub(super) lints: Vec<Attribute>,
}

/// Straight-line code: the body, an arm, or the body of a form.
pub(super) struct Seq {
    /// Items of the user, such as a `use` or a `const`.
    pub(super) items: Vec<Item>,
    pub(super) statements: Vec<Statement>,
    pub(super) tail: Box<Node>,
}

pub(super) enum Statement {
    /// A `let` that is a view of earlier values, such as `let name = &order.name;`. Each reader
    /// repeats it.
    View(Local),
    /// A macro whose rules use variables of the body.
    Rules(ItemMacro),
    /// A view that calls methods. Each reader repeats it if all methods are from the standard
    /// library. Otherwise it is computed once and recorded.
    Look(Node),
    Node(Node),
}

/// A node with the pattern that it is bound to.
pub(super) struct Node {
    pub(super) name: String,
    /// Pattern of the user; `None` for a statement or the last expression.
    pub(super) pat: Option<Pat>,
    pub(super) ty: Option<Type>,
    /// Attributes before the node that are for the compiler.
    pub(super) attrs: Vec<Attribute>,
    /// The path or method that the node calls, as written.
    pub(super) calls: String,
    pub(super) policy: Policy,
    pub(super) span: Span,
    /// `true` if the expression is a `Result`, like the workflow's last expression.
    pub(super) wrapped: bool,
    /// `true` if an arm of the node ends the workflow. The nodes below it run only if no such arm
    /// was taken.
    pub(super) leaves: bool,
    /// `true` for a step whose value is dropped.
    pub(super) is_statement: bool,
    /// `true` for a part of a user's expression that is computed before a choice.
    pub(super) is_part: bool,
    pub(super) work: Work,
}

#[expect(clippy::large_enum_variant, reason = "a handful, for the time of one expansion")]
pub(super) enum Work {
    Step(Expr),
    Value(Expr),
    /// A statement without a step. It has no value and keeps its position.
    Check(Expr),
    /// An expression that never has a value.
    Never(Expr),
    Route(Route),
    Gate {
        question: Expr,
        payload: Option<Expr>,
        answer: Option<Type>,
    },
    Map {
        items: Items,
        step: Lambda,
    },
    For {
        items: Items,
        pat: Pat,
        body: Seq,
    },
    Race(Vec<Branch>),
    Fallback(Vec<Branch>),
    Repeat {
        first: Expr,
        step: Lambda,
        until: Option<Expr>,
        max: Expr,
    },
    /// A future, to which the expansion adds `.await?`.
    Future(Expr),
}

/// The list of a `map!` or a `for`.
pub(super) struct Items {
    pub(super) expr: Expr,
    pub(super) borrowed: Borrowed,
}

/// The borrowed part of each item.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Borrowed {
    No,
    /// The whole item, as in `for file in &files`.
    Whole,
    /// The second field, as in `for (number, file) in files.iter().enumerate()`.
    Second,
}

/// `|x| step(x)`, or a closure with several steps.
pub(super) struct Lambda {
    pub(super) pat: Pat,
    pub(super) step: LambdaBody,
}

pub(super) enum LambdaBody {
    /// A future, to which the expansion adds `.await?`.
    Future(Expr),
    Seq(Seq),
}

pub(super) struct Branch {
    pub(super) name: String,
    pub(super) span: Span,
    pub(super) step: BranchBody,
}

pub(super) enum BranchBody {
    /// A future, to which the expansion adds `.await?`.
    Future(Expr),
    /// An expression that is used unchanged.
    Whole(Expr),
    Seq(Seq),
}

pub(super) struct Route {
    pub(super) head: RouteHead,
    pub(super) arms: Vec<Arm>,
}

pub(super) enum RouteHead {
    /// The conditions in order. The arm after the last one is the `else`.
    If(Vec<Expr>),
    Match(syn::ExprMatch),
}

pub(super) struct Arm {
    pub(super) name: String,
    /// Names that the pattern binds.
    pub(super) binds: Vec<Ident>,
    /// Names in `binds` that are bound as `mut`.
    pub(super) mutable: Vec<Ident>,
    /// `true` if some of the names may be constants.
    pub(super) uncertain: bool,
    /// `#[cfg(..)]` attributes before the arm.
    pub(super) cfgs: Vec<Attribute>,
    /// Lint levels before the arm.
    pub(super) lints: Vec<Attribute>,
    /// `true` if the arm ends the workflow with its value.
    pub(super) returns: bool,
    pub(super) body: Seq,
}

/// Settings from `#[node(..)]` and `#[after(..)]`.
#[derive(Default)]
pub(super) struct Policy {
    pub(super) id: Option<String>,
    pub(super) retry: Option<LitInt>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) skip_on_error: bool,
    /// The step that is executed if this one fails.
    pub(super) route: Option<Expr>,
    pub(super) approve: Option<Approve>,
    pub(super) approve_timeout_ms: Option<u64>,
    /// The action, with the name of the option for errors.
    pub(super) on_timeout: Option<(Ident, TimeoutAction)>,
    pub(super) concurrency: Option<LitInt>,
    pub(super) repeatable: Option<syn::LitBool>,
    /// The name of the option, for errors.
    pub(super) tap: Option<Ident>,
    pub(super) write: bool,
    pub(super) unordered: bool,
    pub(super) after: Vec<Ident>,
}

impl Policy {
    /// Returns `true` if an option is set that only a node with a step can have.
    pub(super) fn is_of_step(&self) -> bool {
        self.retry.is_some()
            || self.timeout_ms.is_some()
            || self.skip_on_error
            || self.route.is_some()
            || self.approve.is_some()
            || self.approve_timeout_ms.is_some()
            || self.on_timeout.is_some()
            || self.repeatable.is_some()
            || self.tap.is_some()
            || self.write
            || self.unordered
    }
}

pub(super) enum Approve {
    /// The default question, which contains the name of the node.
    Usual,
    Question(Expr),
}
