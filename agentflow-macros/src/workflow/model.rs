//! What the workflow is: inputs, nodes in the order of the source, the output.

use proc_macro2::{Ident, Span, TokenStream};
use syn::{Attribute, Expr, Local, Pat, Path, Type};

pub(super) struct Workflow {
    pub(super) krate: Path,
    pub(super) name: String,
    /// An expression that is a string.
    pub(super) description: TokenStream,
    pub(super) context: Option<Context>,
    pub(super) inputs: Vec<Input>,
    pub(super) output: Type,
    pub(super) concurrency: Option<TokenStream>,
    /// The variant of `StopPolicy`.
    pub(super) stop: Option<Ident>,
    pub(super) body: Seq,
}

/// The first parameter when it is a reference.
pub(super) struct Context {
    pub(super) ident: Option<Ident>,
    /// The type behind the `&`.
    pub(super) ty: Type,
}

pub(super) struct Input {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    /// The levels of lints that stand before it.
    pub(super) lints: Vec<Attribute>,
}

/// Straight-line code: the body, or an arm of it.
pub(super) struct Seq {
    pub(super) statements: Vec<Statement>,
    pub(super) tail: Box<Node>,
}

#[expect(clippy::large_enum_variant, reason = "a handful, for the time of one expansion")]
pub(super) enum Statement {
    /// A `let` without a step: written into each node that reads it.
    Glue(Local),
    Node(Node),
}

/// One node, with what it is bound to.
pub(super) struct Node {
    pub(super) name: String,
    /// What the user binds it to; `None` for a tail.
    pub(super) pat: Option<Pat>,
    pub(super) ty: Option<Type>,
    /// What stands before it for the compiler.
    pub(super) attrs: Vec<Attribute>,
    /// What it calls, as written.
    pub(super) calls: String,
    pub(super) policy: Policy,
    pub(super) span: Span,
    /// Whether the expression is a `Result`, as the workflow's own tail is.
    pub(super) wrapped: bool,
    pub(super) work: Work,
}

#[expect(clippy::large_enum_variant, reason = "a handful, for the time of one expansion")]
pub(super) enum Work {
    Step(Expr),
    Value(Expr),
    Route(Route),
    Gate {
        question: Expr,
        payload: Option<Expr>,
        answer: Option<Type>,
    },
    Map {
        items: Expr,
        step: Lambda,
    },
    Race(Vec<Branch>),
    Fallback(Vec<Branch>),
    Repeat {
        first: Expr,
        step: Lambda,
        until: Option<Expr>,
        max: Expr,
    },
    /// A future that is awaited for the user.
    Future(Expr),
}

/// `|x| step(x)`
pub(super) struct Lambda {
    pub(super) pat: Pat,
    pub(super) step: Expr,
}

pub(super) struct Branch {
    pub(super) name: String,
    /// The future, which is awaited for the user; or the whole expression, when it awaits itself.
    pub(super) step: Expr,
    pub(super) awaited: bool,
}

pub(super) struct Route {
    pub(super) head: Head,
    pub(super) arms: Vec<Arm>,
}

pub(super) enum Head {
    /// The conditions in their order; what is left is the `else`.
    If(Vec<Expr>),
    Match(syn::ExprMatch),
}

pub(super) struct Arm {
    pub(super) name: String,
    /// What its pattern binds.
    pub(super) binds: Vec<Ident>,
    /// The levels of lints that stand before it.
    pub(super) lints: Vec<Attribute>,
    pub(super) body: Seq,
}

/// What `#[node(..)]` and `#[after(..)]` say.
#[derive(Default)]
pub(super) struct Policy {
    pub(super) id: Option<String>,
    pub(super) retry: Option<syn::LitInt>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) skip_on_error: bool,
    /// The step that is tried when this one has failed.
    pub(super) route: Option<Expr>,
    pub(super) approve: Option<Approve>,
    pub(super) concurrency: Option<syn::LitInt>,
    pub(super) repeatable: Option<syn::LitBool>,
    pub(super) after: Vec<Ident>,
}

pub(super) enum Approve {
    /// With a question of our own.
    Usual,
    Question(Expr),
}
