//! A workflow as data: inputs, nodes in the order of the source, output. Written by `body` and `attrs`, read by `expand`.

use proc_macro2::{Ident, Span, TokenStream};
use syn::{Attribute, Expr, Local, Pat, Path, Type};

pub(super) struct Workflow {
    pub(super) krate: Path,
    pub(super) name: String,
    /// An expression that is a string.
    pub(super) description: TokenStream,
    pub(super) context: Option<ContextParam>,
    pub(super) inputs: Vec<Input>,
    pub(super) output: Type,
    pub(super) concurrency: Option<TokenStream>,
    /// The variant of `StopPolicy`.
    pub(super) stop: Option<Ident>,
    pub(super) body: Seq,
}

/// The first parameter when it is a reference.
pub(super) struct ContextParam {
    pub(super) ident: Option<Ident>,
    /// The type after the `&`.
    pub(super) ty: Type,
}

pub(super) struct Input {
    pub(super) ident: Ident,
    pub(super) ty: Type,
    /// The lint levels before it.
    pub(super) lints: Vec<Attribute>,
}

/// Straight-line code: the body, or an arm of it.
pub(super) struct Seq {
    pub(super) statements: Vec<Statement>,
    pub(super) tail: Box<Node>,
}

#[expect(clippy::large_enum_variant, reason = "a handful, for the time of one expansion")]
pub(super) enum Statement {
    /// A `let` without a step. It is not a node: each node that reads it repeats it.
    Glue(Local),
    Node(Node),
}

/// One node, with the pattern that it is bound to.
pub(super) struct Node {
    pub(super) name: String,
    /// The user's pattern; `None` for the last expression.
    pub(super) pat: Option<Pat>,
    pub(super) ty: Option<Type>,
    /// The attributes before it that are for the compiler.
    pub(super) attrs: Vec<Attribute>,
    /// The path or method that it calls, as written.
    pub(super) calls: String,
    pub(super) policy: Policy,
    pub(super) span: Span,
    /// Whether the expression is a `Result`, as the workflow's last expression is.
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
    /// A future without `.await?`, which the expansion adds.
    Future(Expr),
}

/// `|x| step(x)`
pub(super) struct Lambda {
    pub(super) pat: Pat,
    pub(super) step: Expr,
}

pub(super) struct Branch {
    pub(super) name: String,
    /// The future, to which the expansion adds `.await?`, or the whole expression when `awaited` is set.
    pub(super) step: Expr,
    pub(super) awaited: bool,
}

pub(super) struct Route {
    pub(super) head: Head,
    pub(super) arms: Vec<Arm>,
}

pub(super) enum Head {
    /// The conditions in their order; the arm after the last one is the `else`.
    If(Vec<Expr>),
    Match(syn::ExprMatch),
}

pub(super) struct Arm {
    pub(super) name: String,
    /// The names that its pattern binds.
    pub(super) binds: Vec<Ident>,
    /// The lint levels before it.
    pub(super) lints: Vec<Attribute>,
    pub(super) body: Seq,
}

/// What `#[node(..)]` and `#[after(..)]` set.
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
    /// With our question, which names the node.
    Usual,
    Question(Expr),
}
