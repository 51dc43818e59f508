//! Parses the tokens of an expression into a syntax tree with positions. It evaluates nothing.

use serde_json::Value;

use super::expression_codes as codes;
use super::functions::{self, Function};
use super::tokens::{Token, tokens};
use crate::diagnostic::{Code, Diagnostic};

/// Absolute value of `i64::MIN`.
const LOWEST: u64 = 1 << 63;
/// Maximum nesting of an expression.
const DEEPEST: usize = 64;

/// A node of the syntax tree, with its position.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Value(Value),
    Name(String),
    List(Vec<Node>),
    Field(Box<Node>, String),
    Index(Box<Node>, Box<Node>),
    /// The macro `has`.
    Has(Box<Node>),
    Not(Box<Node>),
    Minus(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Choice(Box<Node>, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
    /// A macro over a list: the list, the name of the loop variable, and the body.
    Each(Macro, Box<Node>, String, Box<Node>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Plus,
    Minus,
    Times,
    Divided,
    Rest,
}

impl Operator {
    pub(super) fn sign(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Times => "*",
            Self::Divided => "/",
            Self::Rest => "%",
        }
    }
}

/// The macros that visit each item of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    Map,
}

/// Binary operators by precedence, the lowest first.
const LEVELS: [&[(&str, Operator)]; 3] = [
    &[
        ("==", Operator::Equal),
        ("!=", Operator::Unequal),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
        ("in", Operator::In),
    ],
    &[("+", Operator::Plus), ("-", Operator::Minus)],
    &[("*", Operator::Times), ("/", Operator::Divided), ("%", Operator::Rest)],
];

pub(super) fn expression(text: &str) -> Result<Node, Diagnostic> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0, links: 0 };
    let root = parser.choice()?;
    match parser.peek() {
        Token::End => Ok(root),
        _ => Err(parser.unexpected("the expression should end")),
    }
}

/// Returns the CEL token for a keyword of Python.
fn python_word(name: &str) -> Option<&'static str> {
    Some(match name {
        "True" => "true",
        "False" => "false",
        "None" => "null",
        "not" => "!",
        _ => return None,
    })
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
    /// Number of chained operators around the current position.
    links: usize,
}

type Parsed = Result<Node, Diagnostic>;

impl Parser {
    fn peek(&self) -> &Token {
        &self.tokens[self.next.min(self.tokens.len() - 1)].1
    }

    fn at(&self) -> usize {
        self.tokens[self.next.min(self.tokens.len() - 1)].0
    }

    /// Consumes a sign or a word, if it is the next token.
    fn takes(&mut self, sign: &str) -> bool {
        let is_it = match self.peek() {
            Token::Sign(next) => *next == sign,
            Token::Name(next) => next == sign,
            _ => false,
        };
        self.next += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, sign: &str) -> Result<(), Diagnostic> {
        if self.takes(sign) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("`{sign}` should follow")))
        }
    }

    fn unexpected(&self, expected: &str) -> Diagnostic {
        let token = |name: &dyn std::fmt::Display| {
            Diagnostic::new(codes::UNEXPECTED_TOKEN).name("token", name)
        };
        let wrong = |name: &str, operator: &str| {
            Diagnostic::new(codes::WRONG_OPERATOR).name("token", name).absent("operator", operator)
        };
        let found = match self.peek() {
            Token::End => Diagnostic::new(codes::UNEXPECTED_END),
            Token::Name(name) if name == "and" => wrong("and", "&&"),
            Token::Name(name) if name == "or" => wrong("or", "||"),
            Token::Name(name) => token(name),
            Token::Int(value) => token(value),
            Token::Double(value) => token(value),
            Token::Text(_) => Diagnostic::new(codes::UNEXPECTED_TOKEN).text("token", "a text"),
            Token::Sign("=") => wrong("=", "=="),
            Token::Sign("&") => wrong("&", "&&"),
            Token::Sign(sign) => token(sign),
        };
        found.text("expected", expected).at_byte(self.at())
    }

    /// Returns a problem at the current token.
    fn problem(&self, code: Code) -> Diagnostic {
        Diagnostic::new(code).at_byte(self.at())
    }

    /// Parses a part that is nested one level deeper.
    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(self.problem(codes::TOO_DEEP).number("most", DEEPEST));
        }
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn choice(&mut self) -> Parsed {
        self.deeper(|parser| {
            let condition = parser.or()?;
            let at = parser.at();
            if !parser.takes("?") {
                return Ok(condition);
            }
            let yes = parser.choice()?;
            parser.expect(":")?;
            let no = parser.choice()?;
            Ok(Node { at, kind: Kind::Choice(Box::new(condition), Box::new(yes), Box::new(no)) })
        })
    }

    fn or(&mut self) -> Parsed {
        let first = self.and()?;
        self.chain(first, "||", Self::and, Kind::Or)
    }

    fn and(&mut self) -> Parsed {
        let first = self.binary(0)?;
        self.chain(first, "&&", |parser| parser.binary(0), Kind::And)
    }

    /// Parses operands that are joined by one operator. A long chain becomes a deep tree, so its
    /// length is limited too.
    fn chain(
        &mut self,
        mut left: Node,
        sign: &str,
        operand: impl Fn(&mut Self) -> Parsed,
        kind: impl Fn(Box<Node>, Box<Node>) -> Kind,
    ) -> Parsed {
        let mut links = 0;
        loop {
            let at = self.at();
            if !self.takes(sign) {
                self.links -= links;
                return Ok(left);
            }
            links += 1;
            self.link()?;
            left = Node { at, kind: kind(Box::new(left), Box::new(operand(self)?)) };
        }
    }

    fn link(&mut self) -> Result<(), Diagnostic> {
        self.links += 1;
        match self.links > 4 * DEEPEST {
            true => Err(self.problem(codes::TOO_MANY_OPERATORS)),
            false => Ok(()),
        }
    }

    fn binary(&mut self, level: usize) -> Parsed {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        let mut links = 0;
        loop {
            let at = self.at();
            let Some((_, operator)) = operators.iter().find(|(sign, _)| self.takes(sign)) else {
                self.links -= links;
                return Ok(left);
            };
            links += 1;
            self.link()?;
            let right = self.binary(level + 1)?;
            left = Node { at, kind: Kind::Binary(*operator, Box::new(left), Box::new(right)) };
        }
    }

    fn unary(&mut self) -> Parsed {
        let at = self.at();
        if self.takes("!") {
            let of = self.deeper(Self::unary)?;
            return Ok(Node { at, kind: Kind::Not(Box::new(of)) });
        }
        if self.takes("-") {
            // `i64::MIN` has no positive counterpart, so its sign is parsed together with its
            // digits.
            if let Token::Int(LOWEST) = self.peek() {
                self.next += 1;
                return Ok(Node { at, kind: Kind::Value(i64::MIN.into()) });
            }
            let of = self.deeper(Self::unary)?;
            return Ok(Node { at, kind: Kind::Minus(Box::new(of)) });
        }
        self.member()
    }

    fn member(&mut self) -> Parsed {
        let mut of = self.primary()?;
        let mut links = 0;
        loop {
            let at = self.at();
            if self.takes("[") {
                let index = self.choice()?;
                self.expect("]")?;
                of = Node { at, kind: Kind::Index(Box::new(of), Box::new(index)) };
            } else if self.takes(".") {
                let at = self.at();
                let Token::Name(name) = self.peek().clone() else {
                    return Err(self.unexpected("the name of a field should follow"));
                };
                self.next += 1;
                of = match self.takes("(") {
                    true => self.method(of, at, &name)?,
                    false => Node { at, kind: Kind::Field(Box::new(of), name) },
                };
            } else {
                self.links -= links;
                return Ok(of);
            }
            links += 1;
            self.link()?;
        }
    }

    /// Parses a call after a dot. The opening parenthesis is already consumed.
    fn method(&mut self, of: Node, at: usize, name: &str) -> Parsed {
        let each = match name {
            "all" => Some(Macro::All),
            "exists" => Some(Macro::Exists),
            "exists_one" => Some(Macro::ExistsOne),
            "filter" => Some(Macro::Filter),
            "map" => Some(Macro::Map),
            _ => None,
        };
        let Some(each) = each else {
            let mut arguments = vec![of];
            arguments.extend(self.arguments(")")?);
            let function = functions::method(name, arguments.len() - 1, at)?;
            return Ok(Node { at, kind: Kind::Call(function, arguments) });
        };
        // The first argument of a macro is the name of the loop variable, not an expression.
        let Token::Name(item) = self.peek().clone() else {
            return Err(self.unexpected(&format!(
                "a name for the item should follow, as in `{name}(item, ..)`"
            )));
        };
        self.next += 1;
        self.expect(",")?;
        let mut of = of;
        let mut body = self.choice()?;
        if each == Macro::Map && self.takes(",") {
            // With three arguments, `map` has a condition that selects the items.
            of = Node {
                at,
                kind: Kind::Each(Macro::Filter, Box::new(of), item.clone(), Box::new(body)),
            };
            body = self.choice()?;
        }
        self.expect(")")?;
        Ok(Node { at, kind: Kind::Each(each, Box::new(of), item, Box::new(body)) })
    }

    fn arguments(&mut self, end: &str) -> Result<Vec<Node>, Diagnostic> {
        let mut all = Vec::new();
        if self.takes(end) {
            return Ok(all);
        }
        loop {
            all.push(self.choice()?);
            if self.takes(end) {
                return Ok(all);
            }
            if !self.takes(",") {
                return Err(self.unexpected(&format!("`,` or `{end}` should follow")));
            }
        }
    }

    fn primary(&mut self) -> Parsed {
        let at = self.at();
        let token = self.peek().clone();
        let value = |value: Value| Ok(Node { at, kind: Kind::Value(value) });
        match token {
            Token::Int(number) => {
                self.next += 1;
                match i64::try_from(number) {
                    Ok(number) => value(number.into()),
                    Err(_) => {
                        let found = Diagnostic::new(codes::INTEGER_TOO_LARGE);
                        Err(found.name("number", number).at_byte(at))
                    }
                }
            }
            Token::Double(number) => {
                self.next += 1;
                value(number.into())
            }
            Token::Text(text) => {
                self.next += 1;
                value(text.into())
            }
            Token::Sign("(") => {
                self.next += 1;
                let inner = self.choice()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                self.next += 1;
                Ok(Node { at, kind: Kind::List(self.arguments("]")?) })
            }
            Token::Sign("{") => Err(self.problem(codes::OBJECT)),
            Token::Name(name) if name != "in" => {
                self.next += 1;
                if let Some(word) = python_word(&name) {
                    let found = Diagnostic::new(codes::PYTHON_WORD).name("name", name);
                    return Err(found.absent("word", word).at_byte(at));
                }
                // A name before `(` is a function. Keywords cannot be called.
                match name.as_str() {
                    "true" => value(true.into()),
                    "false" => value(false.into()),
                    "null" => value(Value::Null),
                    _ if self.takes("(") => self.call(&name, at),
                    _ => Ok(Node { at, kind: Kind::Name(name) }),
                }
            }
            _ => Err(self.unexpected("a value should follow")),
        }
    }

    /// Parses a call of a plain function. The opening parenthesis is already consumed.
    fn call(&mut self, name: &str, at: usize) -> Parsed {
        let mut arguments = self.arguments(")")?;
        if name == "has" {
            let field =
                arguments.pop().filter(|of| matches!(of.kind, Kind::Field(..) | Kind::Index(..)));
            return match field.filter(|_| arguments.is_empty()) {
                Some(field) => Ok(Node { at, kind: Kind::Has(Box::new(field)) }),
                None => Err(Diagnostic::new(codes::HAS_WITHOUT_FIELD).at_byte(at)),
            };
        }
        let function = functions::function(name, arguments.len(), at)?;
        Ok(Node { at, kind: Kind::Call(function, arguments) })
    }
}

/// A variable with the fields that the expression reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Position in bytes from the start of the expression.
    pub at: usize,
    /// Position of the last part.
    pub(super) last: usize,
    /// The variable and the constant field names and item numbers after it.
    pub parts: Vec<String>,
    /// `true` if the path is only tested with `has(..)`.
    pub may_miss: bool,
}

impl Node {
    /// Returns the position and the parts, if the node is a variable or a constant path into it.
    pub(super) fn path(&self) -> Option<(usize, Vec<String>)> {
        match &self.kind {
            Kind::Name(name) => Some((self.at, vec![name.clone()])),
            Kind::Field(of, field) => {
                let (at, mut parts) = of.path()?;
                parts.push(field.clone());
                Some((at, parts))
            }
            Kind::Index(of, index) => {
                let (at, mut parts) = of.path()?;
                match &index.kind {
                    Kind::Value(Value::String(field)) => parts.push(field.clone()),
                    Kind::Value(Value::Number(number)) => parts.push(number.to_string()),
                    _ => return None,
                }
                Some((at, parts))
            }
            _ => None,
        }
    }

    /// Adds the longest paths of the node to `into`. `items` are the loop variables in scope, which
    /// are not variables of the expression.
    pub(super) fn paths(&self, items: &mut Vec<String>, may_miss: bool, into: &mut Vec<Path>) {
        if let Some((at, parts)) = self.path() {
            if !items.contains(&parts[0]) {
                into.push(Path { at, last: self.at, parts, may_miss });
            }
            return;
        }
        match &self.kind {
            Kind::Value(_) | Kind::Name(_) => {}
            Kind::List(all) | Kind::Call(_, all) => {
                all.iter().for_each(|of| of.paths(items, may_miss, into));
            }
            Kind::Has(of) => of.paths(items, true, into),
            Kind::Field(of, _) | Kind::Not(of) | Kind::Minus(of) => of.paths(items, may_miss, into),
            Kind::Index(one, other)
            | Kind::And(one, other)
            | Kind::Or(one, other)
            | Kind::Binary(_, one, other) => {
                one.paths(items, may_miss, into);
                other.paths(items, may_miss, into);
            }
            Kind::Choice(condition, yes, no) => {
                [condition, yes, no].into_iter().for_each(|of| of.paths(items, may_miss, into));
            }
            Kind::Each(_, list, item, body) => {
                list.paths(items, may_miss, into);
                items.push(item.clone());
                body.paths(items, may_miss, into);
                items.pop();
            }
        }
    }
}
