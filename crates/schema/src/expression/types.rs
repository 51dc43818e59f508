//! Checks an expression against the known types of its variables, before it is evaluated. Unknown
//! types are accepted.

use serde_json::Value;

use super::expression_codes as codes;
use super::functions::Function;
use super::parse::{Kind, Macro, Node, Operator, Path};
use crate::diagnostic::{Diagnostic, Suggestion};

/// The statically known type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KnownKind {
    /// The type is unknown.
    Any,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A string.
    Text,
    /// A list.
    List,
    /// An object.
    Object,
}

impl KnownKind {
    fn from_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::Text,
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Object,
        }
    }

    /// Returns the type of the values of a JSON Schema, by its `type` or `const`.
    pub fn of_schema(schema: &Value) -> Self {
        match schema["type"].as_str() {
            Some("null") => Self::Null,
            Some("boolean") => Self::Bool,
            Some("integer" | "number") => Self::Number,
            Some("string") => Self::Text,
            Some("array") => Self::List,
            Some("object") => Self::Object,
            _ => schema.get("const").map_or(Self::Any, Self::from_value),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Any => "any value",
            Self::Null => "`null`",
            Self::Bool => "`true` or `false`",
            Self::Number => "a number",
            Self::Text => "a text",
            Self::List => "a list",
            Self::Object => "an object",
        }
    }

    fn may_be(self, kinds: &[Self]) -> bool {
        self == Self::Any || kinds.contains(&self)
    }
}

/// The source of the types of variables.
pub trait KnownKinds {
    /// Returns the type of the value at a path.
    ///
    /// # Errors
    /// Returns a diagnostic if the path does not exist. Its position is set by the caller.
    fn kind(&self, path: &Path) -> Result<KnownKind, Diagnostic>;
}

/// Returns the problems of an expression that is used as a condition.
pub(super) fn problems_of_condition(root: &Node, known: &dyn KnownKinds) -> Vec<Diagnostic> {
    let mut check = Check { known, items: Vec::new(), problems: Vec::new() };
    let kind = check.kind(root);
    if check.problems.is_empty() && !kind.may_be(&[KnownKind::Bool]) {
        check.wrong(root, Diagnostic::new(codes::NOT_A_CONDITION).text("found", kind.words()));
    }
    check.problems
}

pub(super) fn problems_of_value(root: &Node, known: &dyn KnownKinds) -> Vec<Diagnostic> {
    let mut check = Check { known, items: Vec::new(), problems: Vec::new() };
    check.kind(root);
    check.problems
}

struct Check<'c> {
    known: &'c dyn KnownKinds,
    items: Vec<&'c str>,
    problems: Vec<Diagnostic>,
}

impl<'c> Check<'c> {
    fn wrong(&mut self, node: &Node, problem: Diagnostic) {
        self.problems.push(problem.at_byte(node.at));
    }

    fn kind(&mut self, node: &'c Node) -> KnownKind {
        // A constant path is checked as a whole, because only the caller knows the types along it.
        if let Some((at, parts)) = node.path() {
            return self.kind_of_path(Path { at, last: node.at, parts, may_miss: false });
        }
        match &node.kind {
            Kind::Value(value) => KnownKind::from_value(value),
            Kind::Name(_) => KnownKind::Any,
            Kind::List(all) => {
                for of in all {
                    self.kind(of);
                }
                KnownKind::List
            }
            Kind::Field(of, _) => {
                self.expect(of, "only an object has fields", &[KnownKind::Object], KnownKind::Any)
            }
            Kind::Index(of, index) => {
                self.kind(index);
                self.expect(
                    of,
                    "`[..]` reads a part of a list or an object",
                    &[KnownKind::List, KnownKind::Object],
                    KnownKind::Any,
                )
            }
            Kind::Has(of) => {
                if let Some((at, parts)) = of.path() {
                    // `has` may test for a missing field, but the path must be possible.
                    self.kind_of_path(Path { at, last: of.at, parts, may_miss: true });
                }
                KnownKind::Bool
            }
            Kind::Not(of) => {
                self.expect(of, "`!` takes a condition", &[KnownKind::Bool], KnownKind::Bool)
            }
            Kind::Minus(of) => {
                self.expect(of, "`-` takes a number", &[KnownKind::Number], KnownKind::Number)
            }
            Kind::And(one, other) => self.both(one, other, "`&&` takes two conditions"),
            Kind::Or(one, other) => self.both(one, other, "`||` takes two conditions"),
            Kind::Binary(operator, one, other) => self.binary(node, *operator, one, other),
            Kind::Choice(condition, yes, no) => {
                self.expect(
                    condition,
                    "`?` follows a condition",
                    &[KnownKind::Bool],
                    KnownKind::Any,
                );
                // Both results are checked, although only one of them is evaluated.
                let (yes, no) = (self.kind(yes), self.kind(no));
                if yes == no { yes } else { KnownKind::Any }
            }
            Kind::Call(function, arguments) => self.call(*function, arguments),
            Kind::Each(each, list, item, body) => {
                self.expect(
                    list,
                    "only a list or an object has items",
                    &[KnownKind::List, KnownKind::Object],
                    KnownKind::Any,
                );
                self.items.push(item);
                if *each == Macro::Map {
                    self.kind(body);
                } else {
                    self.expect(
                        body,
                        "the test of an item is a condition",
                        &[KnownKind::Bool],
                        KnownKind::Any,
                    );
                }
                self.items.pop();
                match each {
                    Macro::All | Macro::Exists | Macro::ExistsOne => KnownKind::Bool,
                    Macro::Filter | Macro::Map => KnownKind::List,
                }
            }
        }
    }

    fn kind_of_path(&mut self, path: Path) -> KnownKind {
        if self.items.contains(&path.parts[0].as_str()) {
            return KnownKind::Any;
        }
        self.known.kind(&path).unwrap_or_else(|problem| {
            // The sentence already names the path, so it shows no position. `last` is inside of the
            // last part, whose end is determined with the text.
            self.problems.push(problem.at(path.at..path.last));
            KnownKind::Any
        })
    }

    /// Checks that a part has one of several types, and records a problem otherwise. Returns
    /// `then`, the type of the enclosing expression.
    fn expect(
        &mut self,
        of: &'c Node,
        what: &str,
        kinds: &[KnownKind],
        then: KnownKind,
    ) -> KnownKind {
        let kind = self.kind(of);
        if !kind.may_be(kinds) {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.words()).collect();
            let found = Diagnostic::new(codes::UNEXPECTED_KIND)
                .text("expected", kinds.join(" or "))
                .text("found", kind.words());
            self.wrong(of, found.suggest(Suggestion::advice(what)));
        }
        then
    }

    fn both(&mut self, one: &'c Node, other: &'c Node, what: &str) -> KnownKind {
        self.expect(one, what, &[KnownKind::Bool], KnownKind::Bool);
        self.expect(other, what, &[KnownKind::Bool], KnownKind::Bool)
    }

    fn binary(
        &mut self,
        node: &Node,
        operator: Operator,
        one: &'c Node,
        other: &'c Node,
    ) -> KnownKind {
        use KnownKind::{Any, Bool, List, Null, Number, Object, Text};
        let sign = operator.sign();
        match operator {
            Operator::In => {
                self.kind(one);
                self.expect(other, "`in` searches a list or an object", &[List, Object], Bool)
            }
            Operator::Equal | Operator::Unequal => {
                let (one, other) = (self.kind(one), self.kind(other));
                // Comparing with `null` tests for a missing value, so it is allowed for every type.
                if one != other && ![Any, Null].contains(&one) && ![Any, Null].contains(&other) {
                    let (one, other) = (one.words(), other.words());
                    let found = Diagnostic::new(codes::NEVER_EQUAL).name("operator", sign);
                    self.wrong(node, found.text("found", one).text("other", other));
                }
                Bool
            }
            Operator::Less
            | Operator::LessOrEqual
            | Operator::Greater
            | Operator::GreaterOrEqual => {
                self.same(node, "two numbers or two texts", &[Number, Text], (sign, one, other));
                Bool
            }
            Operator::Plus => self.same(
                node,
                "two numbers, two texts or two lists",
                &[Number, Text, List],
                (sign, one, other),
            ),
            Operator::Minus | Operator::Times | Operator::Divided | Operator::Rest => {
                self.same(node, "two numbers", &[Number], (sign, one, other));
                Number
            }
        }
    }

    /// Checks that two operands have the same type, one of `kinds`. Returns that type.
    fn same(
        &mut self,
        node: &Node,
        what: &str,
        kinds: &[KnownKind],
        (sign, one, other): (&str, &'c Node, &'c Node),
    ) -> KnownKind {
        let (one, other) = (self.kind(one), self.kind(other));
        let differ = one != other && one != KnownKind::Any && other != KnownKind::Any;
        if differ || !one.may_be(kinds) || !other.may_be(kinds) {
            let (one, other) = (one.words(), other.words());
            let found = Diagnostic::new(codes::OPERATOR_OPERANDS).name("operator", sign);
            let found = found.text("found", one).text("other", other).text("takes", what);
            self.wrong(node, found);
        }
        if one == KnownKind::Any { other } else { one }
    }

    fn call(&mut self, function: Function, arguments: &'c [Node]) -> KnownKind {
        use KnownKind::{Bool, List, Number, Object, Text};
        let (kinds, result): (&[KnownKind], KnownKind) = match function {
            Function::Size => (&[Text, List, Object], Number),
            Function::Contains | Function::StartsWith | Function::EndsWith => (&[Text], Bool),
            Function::Int | Function::Double => (&[Number, Text], Number),
            Function::Text => (&[Text, Number, Bool], Text),
        };
        let what = format!("that is the argument of `{}`", function.name());
        for of in arguments {
            self.expect(of, &what, kinds, result);
        }
        result
    }
}
