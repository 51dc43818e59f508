//! The syntax tree of the programs: functions, blocks, statements, values. All values are typed and
//! every variable has a number, which makes reducing a program simple.

/// Types of the programs.
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
    /// Returns the type as Rust.
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

/// A variable: its index in [`Program::variables`].
pub(crate) type Id = usize;

#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub(crate) name: String,
    pub(crate) kind: Type,
}

/// Mode in which an argument is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Own,
    /// `&x`.
    Ref,
    /// The receiver before a dot.
    Place,
    /// A variable whose name is part of the text, as in a format string.
    Name,
}

/// An expression without an `.await`.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Literal(String),
    Variable(Id),
    /// A text with `{0}`, `{1}` for the arguments and `{s}` for the number of the call site.
    Form(Form),
}

#[derive(Clone, Debug)]
pub(crate) struct Form {
    pub(crate) text: String,
    pub(crate) site: u64,
    pub(crate) arguments: Vec<(Mode, Expr)>,
}

/// A call of a step, a tool or another function. The call of a step or an async tool returns a
/// future.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) form: Form,
    pub(crate) is_async: bool,
    pub(crate) can_fail: bool,
}

/// Expression around a call.
#[derive(Clone, Debug)]
pub(crate) enum Wrap {
    Bare,
    Some,
    MapErr,
    Block,
    /// Repeated in a loop.
    Loop,
    /// Followed by a second call.
    Pair(Box<Call>),
    /// Concurrent with a second call.
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
    /// Pattern with `{0}` for the variable.
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

/// End of a block.
#[derive(Clone, Debug, Default)]
pub(crate) enum End {
    /// No value.
    #[default]
    Unit,
    /// `value`.
    Value(Box<Value>),
    /// `return Ok(..)`.
    Return(Expr),
    /// `return Err(..)`.
    Fail(u64),
    /// End of a function: `Ok(..)`.
    Done(Expr),
    /// End of a function: `step(..).await`.
    Tail(Call),
    /// End of a function: an `if` whose blocks end like functions.
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
    /// A statement with a value of type `()`.
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
    /// Content of `#[workflow(..)]`.
    pub(crate) option: &'static str,
}

/// A program: a main function, and the functions that it calls.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) variables: Vec<Variable>,
    pub(crate) nested: Vec<Function>,
    pub(crate) main: Function,
    /// Inputs, as expressions.
    pub(crate) cases: Vec<Vec<String>>,
}

impl Program {
    /// Returns `true` if the program may ask a person.
    pub(crate) fn asks(&self) -> bool {
        let text = format!("{:?} {:?}", self.main, self.nested);
        text.contains("Gate {") || text.contains("wipe(") || text.contains("wipe_in_helper(")
    }
}
