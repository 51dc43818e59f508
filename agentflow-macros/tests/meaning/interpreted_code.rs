//! The interpreted form of Rust code: expressions, patterns and functions. Names are interned and
//! the arguments of macros are parsed, so that code can be executed often.

use std::cell::OnceCell;
use std::rc::Rc;

use super::plan::Plan;
use super::types::Ty;
use super::value::{Name, Value};

pub(super) enum Code {
    Constant(Value),
    /// A variable or an item.
    Name(Name),
    /// The last two segments of a path.
    Path(Name, Name),
    /// An expression without an `.await`.
    Sync(Box<Code>),
    Call(Box<Code>, Vec<Code>),
    Method {
        receiver: Box<Code>,
        name: Name,
        turbofish: Vec<Ty>,
        arguments: Vec<Code>,
    },
    Field(Box<Code>, Name),
    Index(Box<Code>, Box<Code>),
    Not(Box<Code>),
    Negative(Box<Code>),
    Reference(Box<Code>),
    Dereference(Box<Code>),
    Binary(Operator, Box<Code>, Box<Code>),
    /// `left op= right`; without an operator `left = right`.
    Assign(Option<Operator>, Box<Code>, Box<Code>),
    /// A conversion between numbers.
    Cast(Box<Code>),
    Tuple(Vec<Code>),
    List(Vec<Code>),
    Repeated(Box<Code>, Box<Code>),
    Range(Box<Code>, Box<Code>),
    Struct {
        of: Name,
        variant: Name,
        fields: Vec<(Name, Code)>,
        rest: Option<Box<Code>>,
    },
    Block(Vec<Statement>, Option<Box<Code>>),
    If(Box<Code>, Box<Code>, Option<Box<Code>>),
    /// `let pattern = value` as a condition.
    Let(Box<Pattern>, Box<Code>),
    Match(Box<Code>, Vec<(Pattern, Code)>),
    Loop(Box<Code>),
    While(Box<Code>, Box<Code>),
    For(Box<Pattern>, Box<Code>, Box<Code>),
    Break(Option<Box<Code>>),
    Continue,
    Return(Option<Box<Code>>),
    Try(Box<Code>),
    Await(Box<Code>),
    Closure {
        parameters: Rc<Vec<Pattern>>,
        body: Rc<Code>,
        free: Rc<Vec<Name>>,
    },
    Async {
        body: Rc<Code>,
        free: Rc<Vec<Name>>,
    },
    Format(Vec<Piece>),
    /// `panic!` and its relatives.
    Panic(Box<Code>),
    /// The condition and the message of an `assert!`.
    Assert(Box<Code>, Box<Code>),
    Join(Vec<Code>),
}

pub(super) enum Statement {
    Let { pattern: Pattern, ty: Option<Ty>, value: Code, otherwise: Option<Code> },
    Expression(Code),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    And,
    Or,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A part of a format string.
pub(super) enum Piece {
    Text(Rc<str>),
    Display(Code),
    Debug(Code),
}

pub(super) enum Pattern {
    Ignored,
    Bind(Name, Option<Box<Pattern>>),
    Tuple(Vec<Pattern>),
    /// A struct or a variant with the patterns of some of its fields.
    Data {
        of: Name,
        variant: Name,
        fields: Vec<(Name, Pattern)>,
    },
    Constant(Value),
    /// A range of numbers, with both ends included.
    Range(i64, i64),
    Or(Vec<Pattern>),
    Guarded(Box<Pattern>, Box<Code>),
}

/// Policy of a tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    pub(super) writes: bool,
    pub(super) reads: bool,
    pub(super) idempotent: bool,
    pub(super) asks: bool,
}

impl Tool {
    /// Returns `true` if a call with an unknown outcome may be repeated.
    pub(super) fn is_repeatable(self) -> bool {
        !self.writes || self.idempotent
    }
}

/// A function of the kit or of a program.
pub(super) struct Item {
    pub(super) name: Name,
    /// Type that the function belongs to; empty for a free function.
    pub(super) owner: Name,
    pub(super) parameters: Vec<Pattern>,
    pub(super) takes: Vec<Ty>,
    pub(super) gives: Ty,
    pub(super) body: Option<Rc<Code>>,
    pub(super) is_async: bool,
    /// Type of the error that `?` returns.
    pub(super) error: Name,
    pub(super) tool: Option<Tool>,
    /// The plan, if the function is a workflow.
    pub(super) plan: OnceCell<Rc<Plan>>,
    pub(super) is_workflow: bool,
}
