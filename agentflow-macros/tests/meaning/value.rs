//! Values of interpreted programs, and their text forms.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::rc::Rc;

use super::builder::{Builder, NodeSettings};
use super::interpreted_code::{Code, Item, Pattern};
use super::types::Ty;

/// An interned name.
pub(super) type Name = &'static str;

/// Returns the interned form of a name.
pub(super) fn intern(name: &str) -> Name {
    thread_local! {
        static NAMES: RefCell<HashSet<&'static str>> = RefCell::default();
    }
    NAMES.with_borrow_mut(|names| match names.get(name) {
        Some(known) => known,
        None => {
            let known: &'static str = Box::leak(name.to_owned().into_boxed_str());
            names.insert(known);
            known
        }
    })
}

#[derive(Clone)]
pub(super) enum Value {
    Unit,
    Bool(bool),
    Int(i64),
    Text(Rc<str>),
    /// A list, a slice, or an iterator, which is computed at once.
    List(Rc<Vec<Value>>),
    Tuple(Rc<Vec<Value>>),
    /// A struct, or a variant of an enum.
    Data(Rc<Data>),
    Function(Rc<Item>),
    /// The constructor of a tuple struct or of a variant.
    Constructor(Name, Name),
    Closure(Rc<Closure>),
    Future(Rc<Future>),
    /// An object of the expansion.
    Host(Host),
}

pub(super) struct Data {
    /// Type of the value; empty if the program does not name it.
    pub(super) of: Name,
    pub(super) variant: Name,
    pub(super) fields: Vec<(Name, Value)>,
}

pub(super) struct Closure {
    pub(super) parameters: Rc<Vec<Pattern>>,
    pub(super) body: Rc<Code>,
    /// Variables of the surrounding code.
    pub(super) captured: Vec<(Name, Value)>,
    /// The type of the error that `?` returns.
    pub(super) error: Name,
}

/// A future that has not begun.
pub(super) enum Future {
    Call(Rc<Item>, Vec<Value>),
    /// A function of the world.
    Native(Name, Vec<Value>),
    Block(Closure),
    Ready(Value),
}

/// An object that only expansions use.
#[derive(Clone)]
pub(super) enum Host {
    Context,
    Rate,
    Local,
    /// The builder of a plan.
    Steps(Rc<RefCell<Builder>>),
    Handle(Handle),
    /// A router node.
    Router(u32),
    /// The join of the arms that returned so far.
    Returned(u32),
    Arms(Rc<Vec<Handle>>),
    Returns(Rc<RefCell<Vec<Handle>>>),
    Branches(Rc<Vec<BranchValue>>),
    Branch(Rc<BranchValue>),
    Node(Rc<NodeSettings>),
    /// The answer of the compiler to a question about a type.
    Told(Rc<Cell<Option<bool>>>),
    /// `told.is_standard()`, which is answered when the closure is typed.
    IsStandard(Rc<Cell<Option<bool>>>),
    /// The arguments of a step in a run.
    Arguments(Rc<Value>),
    /// A view that each reader computes again.
    ComputedAgain,
}

#[derive(Clone)]
pub(super) struct Handle {
    /// `None` for a value that is computed again by each reader.
    pub(super) node: Option<u32>,
    pub(super) ty: Ty,
}

#[derive(Clone)]
pub(super) struct BranchValue {
    pub(super) name: Name,
    pub(super) reads: Vec<Handle>,
    pub(super) body: super::plan::StepBody,
    pub(super) callees: Vec<Rc<Item>>,
    pub(super) ty: Ty,
}

impl Value {
    pub(super) fn text(text: impl AsRef<str>) -> Self {
        Self::Text(text.as_ref().into())
    }

    pub(super) fn list(all: Vec<Self>) -> Self {
        Self::List(Rc::new(all))
    }

    pub(super) fn tuple(all: Vec<Self>) -> Self {
        match all.is_empty() {
            true => Self::Unit,
            false => Self::Tuple(Rc::new(all)),
        }
    }

    pub(super) fn data(of: Name, variant: Name, fields: Vec<(Name, Self)>) -> Self {
        Self::Data(Rc::new(Data { of, variant, fields }))
    }

    pub(super) fn some(value: Self) -> Self {
        Self::data("Option", "Some", vec![("0", value)])
    }

    pub(super) fn none() -> Self {
        Self::data("Option", "None", Vec::new())
    }

    pub(super) fn option(value: Option<Self>) -> Self {
        value.map_or_else(Self::none, Self::some)
    }

    pub(super) fn ok(value: Self) -> Self {
        Self::data("Result", "Ok", vec![("0", value)])
    }

    pub(super) fn err(error: Self) -> Self {
        Self::data("Result", "Err", vec![("0", error)])
    }

    pub(super) fn as_bool(&self) -> bool {
        match self {
            Self::Bool(yes) => *yes,
            other => panic!("{} is not a boolean", other.debug()),
        }
    }

    pub(super) fn as_int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            other => panic!("{} is not a number", other.debug()),
        }
    }

    pub(super) fn as_text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            other => panic!("{} is not a text", other.debug()),
        }
    }

    pub(super) fn as_list(&self) -> &[Self] {
        match self {
            Self::List(all) => all,
            other => panic!("{} is not a list", other.debug()),
        }
    }

    pub(super) fn as_data(&self) -> &Data {
        match self {
            Self::Data(data) => data,
            other => panic!("{} has no fields", other.debug()),
        }
    }

    /// Returns the value in `Some`, `Ok` or `Err`, with the name of the variant.
    pub(super) fn variant(&self) -> (Name, Option<&Self>) {
        let data = self.as_data();
        (data.variant, data.fields.first().map(|(_, value)| value))
    }

    /// Formats the value as `{}` does. The kit has one type that implements `Display`: `Fault`.
    pub(super) fn display(&self) -> String {
        match self {
            Self::Int(number) => number.to_string(),
            Self::Bool(yes) => yes.to_string(),
            Self::Text(text) => text.to_string(),
            Self::Data(data) if data.of == "Fault" => data.fields[0].1.display(),
            // The errors of the library, which the kit creates and turns into its own.
            Self::Data(data) if data.variant == "Lost" => {
                format!("the run was lost: {}", data.fields[0].1.display())
            }
            Self::Data(data) if data.variant == "Timeout" => {
                format!("timed out after {}", data.fields[0].1.display())
            }
            other => panic!("{} has no text form", other.debug()),
        }
    }

    /// Formats the value as `{:?}` does.
    pub(super) fn debug(&self) -> String {
        let mut text = String::new();
        self.write_debug(&mut text);
        text
    }

    fn write_debug(&self, into: &mut String) {
        let list = |into: &mut String, all: &[Self], marks: [&str; 2]| {
            into.push_str(marks[0]);
            for (at, one) in all.iter().enumerate() {
                into.push_str(if at > 0 { ", " } else { "" });
                one.write_debug(into);
            }
            into.push_str(marks[1]);
        };
        match self {
            Self::Unit => into.push_str("()"),
            Self::Bool(yes) => into.push_str(if *yes { "true" } else { "false" }),
            Self::Int(number) => drop(write!(into, "{number}")),
            Self::Text(text) => drop(write!(into, "{text:?}")),
            Self::List(all) => list(into, all, ["[", "]"]),
            Self::Tuple(all) => list(into, all, ["(", if all.len() == 1 { ",)" } else { ")" }]),
            Self::Data(data) => {
                into.push_str(if data.variant.is_empty() { data.of } else { data.variant });
                match data.fields.first() {
                    None => {}
                    Some((first, _)) if first.starts_with(|c: char| c.is_ascii_digit()) => {
                        into.push('(');
                        for (at, (_, value)) in data.fields.iter().enumerate() {
                            into.push_str(if at > 0 { ", " } else { "" });
                            value.write_debug(into);
                        }
                        into.push(')');
                    }
                    Some(_) => {
                        into.push_str(" { ");
                        for (at, (name, value)) in data.fields.iter().enumerate() {
                            into.push_str(if at > 0 { ", " } else { "" });
                            into.push_str(name);
                            into.push_str(": ");
                            value.write_debug(into);
                        }
                        into.push_str(" }");
                    }
                }
            }
            Self::Function(item) => into.push_str(item.name),
            Self::Constructor(_, name) => into.push_str(name),
            Self::Closure(_) => into.push_str("a closure"),
            Self::Future(_) => into.push_str("a future"),
            Self::Host(_) => into.push_str("an object of the expansion"),
        }
    }

    /// Formats the result of a program as JSON.
    pub(super) fn json(&self) -> String {
        let all = |values: &[Self]| values.iter().map(Self::json).collect::<Vec<_>>().join(",");
        match self {
            Self::Unit => "null".to_owned(),
            Self::Bool(yes) => yes.to_string(),
            Self::Int(number) => number.to_string(),
            // The texts of programs have no characters for which the two notations differ.
            Self::Text(text) => format!("{text:?}").replace("\\'", "'"),
            Self::List(values) | Self::Tuple(values) => format!("[{}]", all(values)),
            Self::Data(data) if data.of == "Option" => {
                data.fields.first().map_or_else(|| "null".to_owned(), |(_, value)| value.json())
            }
            Self::Data(data) if data.variant.is_empty() => {
                let fields: Vec<String> = data
                    .fields
                    .iter()
                    .map(|(name, value)| format!("\"{name}\":{}", value.json()))
                    .collect();
                format!("{{{}}}", fields.join(","))
            }
            other => panic!("{} is not a result of a program", other.debug()),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unit, Self::Unit) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Int(one), Self::Int(other)) => one == other,
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::List(one), Self::List(other)) | (Self::Tuple(one), Self::Tuple(other)) => {
                one == other
            }
            (Self::Data(one), Self::Data(other)) => {
                one.variant == other.variant && one.fields == other.fields
            }
            _ => false,
        }
    }
}
