//! Types of expressions. The expansion asks the compiler if the receivers of methods are types of
//! the standard library, and its nodes depend on the answers. So the interpreter infers types, for
//! the vocabulary of the generator only.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use syn::{GenericArgument, PathArguments, Type};

use super::globals::Globals;
use super::interpreted_code::{Code, Item, Operator, Pattern, Piece, Statement};
use super::value::{Host, Name, Value};

#[derive(Clone, Default)]
pub(super) enum Ty {
    /// Not written, or not needed.
    #[default]
    Unknown,
    /// The type of an expression that has no value.
    Never,
    Unit,
    Bool,
    Int,
    Str,
    String,
    List(Box<Ty>),
    Iterator(Box<Ty>),
    Option(Box<Ty>),
    Result(Box<Ty>, Box<Ty>),
    Tuple(Vec<Ty>),
    Reference(Box<Ty>),
    /// A type of the program or of another library.
    Named(Name),
    Function(Rc<Item>),
    /// A function of a type, or of the world if the type is empty.
    Associated(Name, Name),
    /// Arguments of a step.
    Arguments(Box<Ty>),
    /// The answer to a question about a type.
    Told(Rc<Cell<Option<bool>>>),
    /// A value that may be computed again: `true` if only the standard library computes it.
    Looked(bool, Box<Ty>),
    /// A value that each reader computes again.
    Again,
}

impl fmt::Debug for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::Never => f.write_str("!"),
            Self::Unit => f.write_str("()"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Str => f.write_str("str"),
            Self::String => f.write_str("String"),
            Self::List(of) => write!(f, "Vec<{of:?}>"),
            Self::Iterator(of) => write!(f, "Iterator<{of:?}>"),
            Self::Option(of) => write!(f, "Option<{of:?}>"),
            Self::Result(of, error) => write!(f, "Result<{of:?}, {error:?}>"),
            Self::Tuple(all) => write!(f, "{all:?}"),
            Self::Reference(of) => write!(f, "&{of:?}"),
            Self::Named(name) => f.write_str(name),
            Self::Function(item) => write!(f, "fn {}", item.name),
            Self::Associated(of, name) => write!(f, "fn {of}::{name}"),
            Self::Arguments(_) => f.write_str("arguments"),
            Self::Told(_) => f.write_str("told"),
            Self::Looked(..) => f.write_str("looked"),
            Self::Again => f.write_str("again"),
        }
    }
}

impl Ty {
    /// Reads a type as written in the program.
    pub(super) fn from_syntax(ty: &Type) -> Self {
        let path = match ty {
            Type::Paren(inner) => return Self::from_syntax(&inner.elem),
            Type::Group(inner) => return Self::from_syntax(&inner.elem),
            Type::Reference(of) => return Self::Reference(Box::new(Self::from_syntax(&of.elem))),
            Type::Slice(of) => return Self::List(Box::new(Self::from_syntax(&of.elem))),
            Type::Tuple(of) if of.elems.is_empty() => return Self::Unit,
            Type::Tuple(of) => {
                return Self::Tuple(of.elems.iter().map(Self::from_syntax).collect());
            }
            Type::Path(path) => path,
            _ => return Self::Unknown,
        };
        let Some(last) = path.path.segments.last() else { return Self::Unknown };
        let mut arguments = match &last.arguments {
            PathArguments::AngleBracketed(all) => all
                .args
                .iter()
                .filter_map(|argument| match argument {
                    GenericArgument::Type(ty) => Some(Self::from_syntax(ty)),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        }
        .into_iter();
        let mut next = || Box::new(arguments.next().unwrap_or_default());
        match super::compile::name_of(&last.ident) {
            "bool" => Self::Bool,
            "i64" | "u64" | "u32" | "usize" | "i32" | "u8" => Self::Int,
            "str" => Self::Str,
            "String" => Self::String,
            "Vec" => Self::List(next()),
            "Option" => Self::Option(next()),
            "Result" => Self::Result(next(), next()),
            name => Self::Named(name),
        }
    }

    /// Returns the type behind all references.
    pub(super) fn bare(&self) -> &Self {
        match self {
            Self::Reference(of) => of.bare(),
            other => other,
        }
    }

    /// Returns `true` if the library lists the type as one of the standard library.
    fn is_standard(&self) -> bool {
        match self.bare() {
            Self::Unit
            | Self::Bool
            | Self::Int
            | Self::Str
            | Self::String
            | Self::List(_)
            | Self::Iterator(_)
            | Self::Option(_)
            | Self::Result(..)
            | Self::Tuple(_) => true,
            Self::Named(name) => *name == "Approval",
            other => panic!("it is not known if {other:?} is a type of the standard library"),
        }
    }

    /// Returns `true` if the type is a borrow of a text, or a collection of such borrows.
    fn is_borrowing(&self) -> bool {
        match self {
            Self::Reference(of) => matches!(**of, Self::Str),
            Self::Option(of) | Self::List(of) => of.is_borrowing(),
            Self::Tuple(all) => all.len() == 2 && all[0].is_borrowing(),
            _ => false,
        }
    }

    /// Returns `true` if values of the type can be recorded.
    fn is_recordable(&self) -> bool {
        match self {
            Self::Reference(_) | Self::Iterator(_) | Self::Str => false,
            Self::Option(of) | Self::List(of) => of.is_recordable(),
            Self::Tuple(all) => all.iter().all(Self::is_recordable),
            _ => true,
        }
    }

    fn is_known(&self) -> bool {
        !matches!(self, Self::Unknown | Self::Never)
    }

    /// Returns the type of two alternatives.
    pub(super) fn or(self, other: Self) -> Self {
        match (&self, &other) {
            (Self::Never, _) | (Self::Unknown, _) => other,
            (Self::Option(of), Self::Option(_)) if !of.is_known() => other,
            (Self::Result(of, _), Self::Result(..)) if !of.is_known() => other,
            _ => self,
        }
    }

    /// Returns the types of the parts of a tuple, or unknown types.
    fn parts(&self, count: usize) -> Vec<Self> {
        match self.bare() {
            Self::Tuple(all) => all.clone(),
            _ => vec![Self::Unknown; count],
        }
    }

    fn item(&self) -> Self {
        match self.bare() {
            Self::List(of) | Self::Iterator(of) | Self::Option(of) => (**of).clone(),
            _ => Self::Unknown,
        }
    }

    /// Replaces the type parameters that the arguments determine.
    fn with(&self, known: &[(Name, Self)]) -> Self {
        let of = |ty: &Self| Box::new(ty.with(known));
        match self {
            Self::Named(name) => known
                .iter()
                .find(|(parameter, _)| parameter == name)
                .map_or_else(|| self.clone(), |(_, ty)| ty.clone()),
            Self::List(ty) => Self::List(of(ty)),
            Self::Option(ty) => Self::Option(of(ty)),
            Self::Result(ty, error) => Self::Result(of(ty), error.clone()),
            Self::Tuple(all) => Self::Tuple(all.iter().map(|ty| ty.with(known)).collect()),
            other => other.clone(),
        }
    }
}

/// Infers the types of an expression and its parts.
pub(super) struct Inference<'g> {
    globals: &'g Globals,
    variables: Vec<(Name, Ty)>,
}

impl<'g> Inference<'g> {
    /// Returns the type of a closure's body, and answers the questions in it.
    pub(super) fn closure(globals: &'g Globals, closure: &Value, parameters: &[Ty]) -> Ty {
        let Value::Closure(closure) = closure else {
            panic!("{} is not a closure", closure.debug())
        };
        let mut variables = Vec::new();
        for (name, value) in &closure.captured {
            if let Value::Host(Host::Told(told)) = value {
                variables.push((*name, Ty::Told(Rc::clone(told))));
            }
        }
        let mut inference = Self { globals, variables };
        for (pattern, ty) in closure.parameters.iter().zip(parameters) {
            inference.bind(pattern, ty);
        }
        inference.of(&closure.body)
    }

    fn bind(&mut self, pattern: &Pattern, ty: &Ty) {
        match pattern {
            Pattern::Ignored | Pattern::Constant(_) | Pattern::Range(..) => {}
            Pattern::Bind(name, inner) => {
                self.variables.push((name, ty.clone()));
                if let Some(inner) = inner {
                    self.bind(inner, ty);
                }
            }
            Pattern::Tuple(all) => {
                for (pattern, ty) in all.iter().zip(ty.parts(all.len())) {
                    self.bind(pattern, &ty);
                }
            }
            Pattern::Data { of, variant, fields } => {
                for (name, pattern) in fields {
                    let field = match (*variant, ty.bare()) {
                        ("Some", of) => of.item(),
                        ("Ok", Ty::Result(of, _)) => (**of).clone(),
                        ("Err", Ty::Result(_, of)) => (**of).clone(),
                        _ => self.globals.field(of, variant, name),
                    };
                    self.bind(pattern, &field);
                }
            }
            Pattern::Or(all) => self.bind(&all[0], ty),
            Pattern::Guarded(inner, guard) => {
                self.bind(inner, ty);
                self.of(guard);
            }
        }
    }

    fn within(&mut self, code: impl FnOnce(&mut Self) -> Ty) -> Ty {
        let outside = self.variables.len();
        let ty = code(self);
        self.variables.truncate(outside);
        ty
    }

    fn name(&self, name: Name) -> Ty {
        match self.variables.iter().rev().find(|(known, _)| *known == name) {
            Some((_, ty)) => ty.clone(),
            None => match self.globals.function(name) {
                Some(item) => Ty::Function(Rc::clone(item)),
                None if super::world::is_native(name) => Ty::Associated("", name),
                None => self.globals.static_type(name),
            },
        }
    }

    fn all(&mut self, all: &[Code]) -> Vec<Ty> {
        all.iter().map(|code| self.of(code)).collect()
    }

    fn of(&mut self, code: &Code) -> Ty {
        match code {
            Code::Sync(inner) | Code::Await(inner) => match self.of(inner) {
                Ty::Arguments(values) => Ty::Tuple(vec![Ty::Named("Context"), *values]),
                ty => ty,
            },
            Code::Constant(value) => match value {
                Value::Int(_) => Ty::Int,
                Value::Bool(_) => Ty::Bool,
                _ => Ty::Reference(Box::new(Ty::Str)),
            },
            Code::Name("None") => Ty::Option(Box::default()),
            Code::Name(name) => self.name(name),
            Code::Path("Number", "None") => Ty::Option(Box::new(Ty::Int)),
            Code::Path(of, name) => match self.globals.method(of, name) {
                Some(item) => Ty::Function(Rc::clone(item)),
                None if name.starts_with(char::is_lowercase) => Ty::Associated(of, name),
                None => Ty::Named(of),
            },
            Code::Call(function, arguments) => self.call(function, arguments),
            Code::Method { receiver, name, turbofish, arguments } => {
                self.method(receiver, name, turbofish, arguments)
            }
            Code::Field(base, name) => match (self.of(base).bare(), *name) {
                (Ty::Tuple(all), at) => all[at.parse::<usize>().expect("a number")].clone(),
                (Ty::Named(of), name) => self.globals.field(of, "", name),
                (other, name) => panic!("{other:?} has no field `{name}`"),
            },
            Code::Index(base, at) => {
                self.of(at);
                self.of(base).item()
            }
            Code::Not(inner) => {
                self.of(inner);
                Ty::Bool
            }
            Code::Negative(inner) | Code::Cast(inner) => {
                self.of(inner);
                Ty::Int
            }
            Code::Reference(inner) => Ty::Reference(Box::new(self.of(inner))),
            Code::Dereference(inner) => match self.of(inner) {
                Ty::Reference(of) => *of,
                other => other,
            },
            Code::Binary(operator, left, right) => {
                let (left, _) = (self.of(left), self.of(right));
                if let Ty::Named(of) = left.bare()
                    && let Some(item) = self.globals.method(of, "add")
                {
                    return item.gives.clone();
                }
                use Operator as Op;
                match operator {
                    Op::Add | Op::Subtract | Op::Multiply | Op::Divide | Op::Remainder => {
                        left.bare().clone()
                    }
                    _ => Ty::Bool,
                }
            }
            Code::Assign(_, left, right) => {
                self.of(left);
                self.of(right);
                Ty::Unit
            }
            Code::Tuple(all) if all.is_empty() => Ty::Unit,
            Code::Tuple(all) => Ty::Tuple(self.all(all)),
            Code::List(all) => {
                let all = self.all(all);
                Ty::List(Box::new(all.into_iter().fold(Ty::Unknown, Ty::or)))
            }
            Code::Repeated(one, count) => {
                self.of(count);
                Ty::List(Box::new(self.of(one)))
            }
            Code::Range(start, end) => {
                self.of(start);
                self.of(end);
                Ty::Iterator(Box::new(Ty::Int))
            }
            Code::Struct { of, fields, rest, .. } => {
                fields.iter().for_each(|(_, value)| drop(self.of(value)));
                rest.iter().for_each(|rest| drop(self.of(rest)));
                Ty::Named(of)
            }
            Code::Block(statements, last) => self.within(|this| {
                let mut ends = false;
                for statement in statements {
                    match statement {
                        Statement::Expression(code) => {
                            ends |= matches!(this.of(code), Ty::Never);
                        }
                        Statement::Let { pattern, ty, value, otherwise } => {
                            let found = this.of(value);
                            if let Some(otherwise) = otherwise {
                                this.of(otherwise);
                            }
                            let ty = match ty {
                                Some(ty) if ty.is_known() && !matches!(found, Ty::Arguments(_)) => {
                                    ty.clone()
                                }
                                _ => found,
                            };
                            this.bind(pattern, &ty);
                        }
                    }
                }
                match last {
                    Some(last) => this.of(last),
                    None if ends => Ty::Never,
                    None => Ty::Unit,
                }
            }),
            Code::If(condition, then, other) => {
                let then = self.within(|this| {
                    this.of(condition);
                    this.of(then)
                });
                match other {
                    Some(other) => then.or(self.of(other)),
                    None => Ty::Unit,
                }
            }
            Code::Let(pattern, value) => {
                let ty = self.of(value);
                self.bind(pattern, &ty);
                Ty::Bool
            }
            Code::Match(value, arms) => {
                let value = self.of(value);
                let arms = arms.iter().map(|(pattern, body)| {
                    self.within(|this| {
                        this.bind(pattern, &value);
                        this.of(body)
                    })
                });
                arms.fold(Ty::Never, Ty::or)
            }
            Code::Loop(body) => {
                self.of(body);
                Ty::Unknown
            }
            Code::While(condition, body) => {
                self.within(|this| {
                    this.of(condition);
                    this.of(body)
                });
                Ty::Unit
            }
            Code::For(pattern, over, body) => {
                let item = self.of(over).item();
                self.within(|this| {
                    this.bind(pattern, &item);
                    this.of(body)
                });
                Ty::Unit
            }
            Code::Break(value) | Code::Return(value) => {
                value.iter().for_each(|value| drop(self.of(value)));
                Ty::Never
            }
            Code::Continue => Ty::Never,
            Code::Try(inner) => match self.of(inner) {
                Ty::Result(of, _) | Ty::Option(of) => *of,
                other => other,
            },
            Code::Async { body, .. } => self.within(|this| this.of(body)),
            Code::Closure { .. } => Ty::Unknown,
            Code::Format(pieces) => {
                for piece in pieces {
                    if let Piece::Display(code) | Piece::Debug(code) = piece {
                        self.of(code);
                    }
                }
                Ty::String
            }
            Code::Panic(message) => {
                self.of(message);
                Ty::Never
            }
            Code::Assert(condition, message) => {
                self.of(condition);
                self.of(message);
                Ty::Unit
            }
            Code::Join(all) => Ty::Tuple(self.all(all)),
        }
    }

    fn call(&mut self, function: &Code, arguments: &[Code]) -> Ty {
        let given = self.all(arguments);
        let first = || given.first().cloned().unwrap_or_default();
        let item = match function {
            Code::Name(name) => match self.name(name) {
                Ty::Function(item) => Some(item),
                _ => None,
            },
            Code::Path(of, name) => self.globals.method(of, name).cloned(),
            _ => None,
        };
        if let Some(item) = item {
            let mut known = Vec::new();
            for (takes, given) in item.takes.iter().zip(&given) {
                if let (Ty::Named(parameter), given) = (takes.bare(), given.bare())
                    && parameter.len() == 1
                {
                    known.push((*parameter, given.clone()));
                }
            }
            return item.gives.with(&known);
        }
        if let Code::Name(name) = function
            && let Ty::Associated(of, name) = self.name(name)
        {
            return self.associated(of, name, &given);
        }
        match function {
            Code::Sync(inner) => self.call(inner, arguments),
            Code::Name("Some") | Code::Path(_, "Some") => Ty::Option(Box::new(first())),
            Code::Name("Ok") | Code::Path(_, "Ok") => {
                Ty::Result(Box::new(first()), Box::new(Ty::Unknown))
            }
            Code::Name("Err") => Ty::Result(Box::new(Ty::Never), Box::new(first())),
            Code::Path("__private", name) => match *name {
                "TriedStep" | "TriedValue" | "FormStep" | "LetOutput" | "Receiver" => first(),
                "looked" => {
                    let told = self.all_standard(&arguments[0]);
                    Ty::Looked(told, Box::new(given[1].clone()))
                }
                "Chosen" => Ty::Option(Box::new(match first() {
                    Ty::Again => Ty::Unknown,
                    ty => ty,
                })),
                "not_this_arm" => Ty::Never,
                "told" => Ty::Told(Rc::default()),
                "function_id" => Ty::Unit,
                name => panic!("the type of `{name}` is not known"),
            },
            // A variant of the program.
            Code::Path(of, name) if name.starts_with(char::is_uppercase) => Ty::Named(of),
            Code::Path(of, name) => self.associated(of, name, &given),
            _ => Ty::Unknown,
        }
    }

    fn associated(&self, of: Name, name: Name, given: &[Ty]) -> Ty {
        let first = || given.first().cloned().unwrap_or_default();
        match (of, name) {
            ("", name) => self.globals.native_type(name),
            ("String", _) => Ty::String,
            ("Numbers", "new") => Ty::List(Box::new(Ty::Int)),
            ("Vec", "new") => Ty::List(Box::default()),
            ("Approval" | "Fault", _) => Ty::Named(of),
            ("Iterator" | "IntoIterator", _) => Ty::List(Box::new(first().item())),
            ("Clone", "clone") => first().bare().clone(),
            ("WorkflowContext", _) => Ty::Named("Context"),
            _ => panic!("the type of `{of}::{name}` is not known"),
        }
    }

    /// Returns `true` if all questions in nested pairs were answered with the standard library.
    fn all_standard(&mut self, told: &Code) -> bool {
        match told {
            Code::Sync(inner) => self.all_standard(inner),
            Code::Tuple(all) => all.iter().all(|one| self.all_standard(one)),
            Code::Name(name) => match self.name(name) {
                Ty::Told(told) => told.get().expect("the question was answered before"),
                _ => panic!("`{name}` is not an answer"),
            },
            Code::Path(_, "IsOther") => false,
            _ => panic!("these are not answers"),
        }
    }

    fn function(&mut self, argument: Option<&Code>, takes: &Ty) -> Ty {
        match argument {
            Some(Code::Sync(inner)) => self.function(Some(inner), takes),
            Some(Code::Closure { parameters, body, .. }) => self.within(|this| {
                parameters.iter().for_each(|parameter| this.bind(parameter, takes));
                this.of(body)
            }),
            Some(other) => match self.of(other) {
                Ty::Function(item) => item.gives.clone(),
                other => other,
            },
            None => Ty::Unknown,
        }
    }

    fn method(&mut self, receiver: &Code, name: Name, turbofish: &[Ty], arguments: &[Code]) -> Ty {
        let whole = self.of(receiver);
        if let (Ty::Told(told), "tell") = (&whole, name) {
            // The type of `Receiver(&x).kind()`, or of a type that the code names.
            let Some(Code::Sync(kind)) = arguments.first() else {
                panic!("a question has an argument")
            };
            let Code::Method { receiver, name: "kind", .. } = &**kind else {
                panic!("a question is about a kind")
            };
            let is_named = matches!(unsynced(receiver), Code::Call(function, _)
                if matches!(&**function, Code::Path(_, "Named")));
            let asked = if is_named { Ty::Unit } else { self.of(receiver) };
            if let Ty::Unknown = asked.bare() {
                let known: Vec<_> =
                    self.variables.iter().filter(|(_, ty)| !matches!(ty, Ty::Told(_))).collect();
                panic!("the type of a receiver is not known; the variables are {known:?}");
            }
            let standard = asked.is_standard();
            told.set(Some(standard));
            return Ty::Never;
        }
        let of = whole.bare().clone();
        if let Ty::Named(owner) = &of
            && let Some(item) = self.globals.method(owner, name)
        {
            let gives = item.gives.clone();
            self.all(arguments);
            return gives;
        }
        let reference = |ty: Ty| Ty::Reference(Box::new(ty));
        match (name, &of) {
            ("map" | "and_then", Ty::Option(_) | Ty::Iterator(_)) => {
                let item = of.item();
                let result = Box::new(self.function(arguments.first(), &item));
                match (&of, name) {
                    (Ty::Option(_), "map") => Ty::Option(result),
                    (Ty::Option(_), _) => *result,
                    _ => Ty::Iterator(result),
                }
            }
            ("filter", _) => {
                let item = reference(of.item());
                self.function(arguments.first(), &item);
                of
            }
            ("map_err", Ty::Result(ok, error)) => {
                let error = self.function(arguments.first(), &error.clone());
                Ty::Result(ok.clone(), Box::new(error))
            }
            ("with", _) => self.function(arguments.first(), &Ty::Named("Cell")),
            _ => {
                self.all(arguments);
                match (name, of) {
                    ("failing" | "bound" | "value" | "kind", of) => of,
                    ("calling", of) => of,
                    ("recorded", Ty::Looked(standard, value)) => match *value {
                        _ if standard => Ty::Again,
                        ty if ty.is_borrowing() || !ty.is_recordable() => Ty::Again,
                        ty => ty,
                    },
                    ("clone", of) | ("to_owned", of) => match of {
                        Ty::Str => Ty::String,
                        of => of,
                    },
                    ("len" | "load" | "sum" | "rem_euclid" | "unwrap_or", _)
                        if !matches!(whole.bare(), Ty::Option(_)) =>
                    {
                        Ty::Int
                    }
                    ("max" | "min", of) => of,
                    ("get", Ty::Named(_)) => Ty::Int,
                    ("lock", Ty::Named(_)) => Ty::Result(Box::new(Ty::Int), Box::default()),
                    ("unwrap", Ty::Result(of, _) | Ty::Option(of)) => *of,
                    ("unwrap_or" | "unwrap_or_default", Ty::Option(of)) => *of,
                    ("iter", of) => Ty::Iterator(Box::new(reference(of.item()))),
                    ("into_iter", of) => Ty::Iterator(Box::new(of.item())),
                    ("collect", of) => match turbofish.first() {
                        Some(Ty::List(inner)) if inner.is_known() => Ty::List(inner.clone()),
                        _ => Ty::List(Box::new(of.item())),
                    },
                    ("first" | "last", of) => Ty::Option(Box::new(reference(of.item()))),
                    ("copied" | "cloned", of) => {
                        let item = Box::new(of.item().bare().clone());
                        match of {
                            Ty::Option(_) => Ty::Option(item),
                            _ => Ty::Iterator(item),
                        }
                    }
                    ("join" | "to_uppercase" | "to_lowercase" | "to_string" | "replace", _) => {
                        Ty::String
                    }
                    ("as_str" | "trim", _) => reference(Ty::Str),
                    (
                        "is_some" | "is_none" | "is_ok" | "is_err" | "is_empty" | "is_granted"
                        | "contains" | "starts_with",
                        _,
                    ) => Ty::Bool,
                    ("sort_unstable" | "push" | "sort" | "push_str", _) => Ty::Unit,
                    ("ok", Ty::Result(of, _)) => Ty::Option(of),
                    (name, of) => panic!("the type of `{name}` on {of:?} is not known"),
                }
            }
        }
    }
}

fn unsynced(code: &Code) -> &Code {
    match code {
        Code::Sync(inner) => unsynced(inner),
        other => other,
    }
}
