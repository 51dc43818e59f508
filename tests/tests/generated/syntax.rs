//! The programs before they are text: functions, blocks, statements, values. Everything is typed and every variable has
//! a number, so that a smaller program can be made of one. It chooses nothing and writes nothing.

/// The types of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Type {
    Int,
    Text,
    Flag,
    Ints,
    Texts,
    Maybe,
    Item,
    Kind,
    Pair,
    Loose,
    Unit,
    Fault,
    Approval,
}

impl Type {
    /// The type as Rust.
    pub(crate) fn rust(self) -> &'static str {
        match self {
            Self::Int => "i64",
            Self::Text => "String",
            Self::Flag => "bool",
            Self::Ints => "Vec<i64>",
            Self::Texts => "Vec<String>",
            Self::Maybe => "Option<i64>",
            Self::Item => "Item",
            Self::Kind => "Kind",
            Self::Pair => "(i64, String)",
            Self::Loose => "Loose",
            Self::Unit => "()",
            Self::Fault => "Fault",
            Self::Approval => "Approval",
        }
    }

    pub(crate) fn is_copy(self) -> bool {
        matches!(self, Self::Int | Self::Flag | Self::Maybe | Self::Unit)
    }
}

/// A variable: its place in [`Program::variables`].
pub(crate) type Id = usize;

#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) kind: Type,
}

/// How an argument is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Own,
    /// `&x`.
    Ref,
    /// What stands before a dot.
    Place,
    /// Only a variable: its name stands in the text, as in a format string.
    Name,
}

/// An expression without an `.await`.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Literal(String),
    Variable(Id),
    /// A text with `{0}`, `{1}` for the arguments and `{s}` for the number of this place.
    Form(Form),
}

#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) text: String,
    pub(crate) site: u64,
    pub(crate) arguments: Vec<(Mode, Expr)>,
}

/// A call: of a step or a tool, whose future it gives, or of a function that is not `async`.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) form: Form,
    pub(crate) is_async: bool,
    pub(crate) can_fail: bool,
}

/// How a call stands in its expression.
#[derive(Clone, Debug)]
pub(crate) enum Wrap {
    Bare,
    Some,
    MapErr,
    Block,
    /// Several times, in a loop.
    Loop,
    /// With another one, one after the other.
    Pair(Box<Call>),
    /// With another one, at the same time.
    Join(Box<Call>),
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    Pure(Expr),
    Call {
        call: Call,
        wrap: Wrap,
    },
    If {
        condition: Expr,
        then: Block,
        other: Option<Block>,
    },
    IfLet {
        name: Id,
        maybe: Box<Value>,
        then: Block,
        other: Option<Block>,
    },
    Match {
        scrutinee: Box<Value>,
        arms: Vec<Arm>,
    },
    Map {
        name: Id,
        over: Expr,
        body: Block,
        serial: bool,
    },
    Repeat {
        first: Expr,
        name: Id,
        call: Call,
        until: String,
        max: u32,
    },
    Fallback {
        first: Call,
        second: Call,
    },
    Timeout(Call),
    Gate {
        site: u64,
        about: Option<Id>,
    },
    /// `attempt(..).await`: a `Result` that is matched on.
    Tried(Call),
}

#[derive(Clone, Debug)]
pub(crate) struct Arm {
    /// With `{0}` for the variable.
    pub(crate) pattern: &'static str,
    pub(crate) name: Option<Id>,
    pub(crate) guard: Option<Expr>,
    pub(crate) body: Block,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) statements: Vec<Statement>,
    pub(crate) end: End,
}

/// How a block ends.
#[derive(Clone, Debug, Default)]
pub(crate) enum End {
    /// Without a value.
    #[default]
    Unit,
    /// With a value: `value`.
    Value(Box<Value>),
    /// With `return Ok(..)`.
    Return(Expr),
    /// With `return Err(..)`.
    Fail(u64),
    /// The end of a function: `Ok(..)`.
    Done(Expr),
    /// The end of a function: `step(..).await`.
    Tail(Call),
    /// The end of a function: an `if` whose blocks end like functions.
    Branch { condition: Expr, then: Box<Block>, other: Box<Block> },
}

#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    Name(Id),
    /// `(a, b)`.
    Pair(Id, Id),
    /// `Item { number, label, .. }`.
    Item(Id, Id),
    /// `whole @ Item { number, .. }`.
    Whole(Id, Id),
    /// `_`.
    Ignored,
}

#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Let {
        pattern: Pattern,
        kind: Type,
        annotated: bool,
        attribute: Option<&'static str>,
        value: Value,
    },
    /// A value of type `()`.
    Bare {
        value: Value,
        attribute: Option<&'static str>,
    },
    /// `assert!(..)`.
    Assert {
        site: u64,
        condition: Expr,
    },
    /// `let Some(name) = .. else { .. };`
    LetElse {
        name: Id,
        maybe: Value,
        other: Block,
    },
    For {
        name: Id,
        over: Expr,
        body: Block,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) takes_context: bool,
    pub(crate) parameters: Vec<Id>,
    pub(crate) gives: Type,
    pub(crate) body: Block,
    /// What stands in `#[workflow(..)]`.
    pub(crate) option: &'static str,
}

/// A program: a function, and the functions that it calls.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) variables: Vec<Variable>,
    pub(crate) nested: Vec<Function>,
    pub(crate) main: Function,
    /// The inputs, as expressions.
    pub(crate) cases: Vec<Vec<String>>,
}

impl Program {
    /// Whether a person is asked somewhere.
    pub(crate) fn asks(&self) -> bool {
        let text = format!("{:?} {:?}", self.main, self.nested);
        text.contains("Gate {") || text.contains("wipe(") || text.contains("wipe_in_helper(")
    }
}
