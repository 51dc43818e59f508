//! Converts parsed Rust into the interpreted form. A construct that is not known here is a fault of
//! the interpreter, so it panics.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{BinOp, Block, Expr, Lit, Macro, Member, Pat, RangeLimits, Stmt, Token, UnOp};

use std::rc::Rc;

use super::interpreted_code::{Code, Operator, Pattern, Piece, Statement};
use super::types::Ty;
use super::value::{Name, Value, intern};

/// Compiles the code of one function.
#[derive(Default)]
pub(super) struct Compiler {
    /// The type that `Self` stands for.
    pub(super) own: Name,
    /// Number of the places that await, so far.
    awaits: usize,
    /// Names that are read, so far.
    names: Vec<Name>,
}

type Arguments = Punctuated<Expr, Token![,]>;

pub(super) fn name_of(ident: &proc_macro2::Ident) -> Name {
    intern(&ident.unraw().to_string())
}

fn unknown(code: &impl ToTokens) -> ! {
    panic!("the interpreter does not know `{}`", code.to_token_stream())
}

fn member(member: &Member) -> Name {
    match member {
        Member::Named(ident) => name_of(ident),
        Member::Unnamed(index) => intern(&index.index.to_string()),
    }
}

fn is_upper(name: &str) -> bool {
    name.starts_with(char::is_uppercase)
}

impl Compiler {
    pub(super) fn of_type(own: Name) -> Self {
        Self { own, ..Self::default() }
    }

    fn boxed(&mut self, expr: &Expr) -> Box<Code> {
        Box::new(self.expr(expr))
    }

    fn all<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) -> Vec<Code> {
        exprs.into_iter().map(|expr| self.expr(expr)).collect()
    }

    /// Compiles an expression. If it does not await, the interpreter need not be able to suspend
    /// it.
    pub(super) fn expr(&mut self, expr: &Expr) -> Code {
        let before = self.awaits;
        let code = self.any(expr);
        match code {
            Code::Constant(_) | Code::Name(_) | Code::Path(..) | Code::Sync(_) => code,
            code if self.awaits == before => Code::Sync(Box::new(code)),
            code => code,
        }
    }

    /// Returns the last two segments of a path.
    fn path(&self, path: &syn::Path) -> (Name, Name) {
        let mut words = path.segments.iter().rev().map(|segment| name_of(&segment.ident));
        let last = words.next().unwrap_or_default();
        let of = words.next().unwrap_or_default();
        let own = |name: Name| if name == "Self" { self.own } else { name };
        (own(of), own(last))
    }

    fn any(&mut self, expr: &Expr) -> Code {
        match expr {
            Expr::Paren(inner) => self.any(&inner.expr),
            Expr::Group(inner) => self.any(&inner.expr),
            Expr::Lit(literal) => Code::Constant(constant(&literal.lit)),
            Expr::Path(path) => {
                let (of, name) = self.path(&path.path);
                if name == "None" && !path.path.segments[0].arguments.is_none() {
                    // The only option that programs name with its type.
                    return Code::Path("Number", name);
                }
                if of.is_empty() {
                    self.names.push(name);
                    return Code::Name(name);
                }
                let is_typed = |segment: &syn::PathSegment| !segment.arguments.is_none();
                if of == "Vec" && path.path.segments.iter().rev().nth(1).is_some_and(is_typed) {
                    // The only list that programs name with its type.
                    return Code::Path("Numbers", name);
                }
                Code::Path(of, name)
            }
            Expr::Call(call) => Code::Call(self.boxed(&call.func), self.all(&call.args)),
            Expr::MethodCall(call) => Code::Method {
                receiver: self.boxed(&call.receiver),
                name: name_of(&call.method),
                turbofish: call
                    .turbofish
                    .iter()
                    .flat_map(|turbofish| &turbofish.args)
                    .map(|argument| match argument {
                        syn::GenericArgument::Type(ty) => Ty::from_syntax(ty),
                        other => unknown(other),
                    })
                    .collect(),
                arguments: self.all(&call.args),
            },
            Expr::Field(field) => Code::Field(self.boxed(&field.base), member(&field.member)),
            Expr::Index(index) => Code::Index(self.boxed(&index.expr), self.boxed(&index.index)),
            Expr::Unary(unary) => {
                let of = self.boxed(&unary.expr);
                match unary.op {
                    UnOp::Deref(_) => Code::Dereference(of),
                    UnOp::Not(_) => Code::Not(of),
                    UnOp::Neg(_) => Code::Negative(of),
                    _ => unknown(expr),
                }
            }
            Expr::Reference(reference) => Code::Reference(self.boxed(&reference.expr)),
            Expr::Binary(both) => {
                let (left, right) = (self.boxed(&both.left), self.boxed(&both.right));
                match operator(&both.op) {
                    (operator, false) => Code::Binary(operator, left, right),
                    (operator, true) => Code::Assign(Some(operator), left, right),
                }
            }
            Expr::Assign(assign) => {
                Code::Assign(None, self.boxed(&assign.left), self.boxed(&assign.right))
            }
            Expr::Cast(cast) => Code::Cast(self.boxed(&cast.expr)),
            Expr::Tuple(tuple) => Code::Tuple(self.all(&tuple.elems)),
            Expr::Array(array) => Code::List(self.all(&array.elems)),
            Expr::Range(range) => match (&range.start, &range.end, range.limits) {
                (Some(start), Some(end), RangeLimits::HalfOpen(_)) => {
                    Code::Range(self.boxed(start), self.boxed(end))
                }
                _ => unknown(expr),
            },
            Expr::Struct(of) => {
                let (outer, name) = self.path(&of.path);
                let (of_type, variant) = type_and_variant(outer, name);
                Code::Struct {
                    of: of_type,
                    variant,
                    fields: of
                        .fields
                        .iter()
                        .map(|field| (member(&field.member), self.expr(&field.expr)))
                        .collect(),
                    rest: of.rest.as_ref().map(|rest| self.boxed(rest)),
                }
            }
            Expr::Block(block) if block.label.is_none() => self.block(&block.block),
            Expr::If(test) => Code::If(
                self.boxed(&test.cond),
                Box::new(self.braces(&test.then_branch)),
                test.else_branch.as_ref().map(|(_, other)| self.boxed(other)),
            ),
            Expr::Let(test) => {
                let value = self.boxed(&test.expr);
                Code::Let(Box::new(self.pattern(&test.pat)), value)
            }
            Expr::Match(cases) => {
                let value = self.boxed(&cases.expr);
                let arms = cases
                    .arms
                    .iter()
                    .map(|arm| (self.pattern(&arm.pat), self.expr(&arm.body)))
                    .collect();
                Code::Match(value, arms)
            }
            Expr::Loop(repeated) => Code::Loop(Box::new(self.braces(&repeated.body))),
            Expr::While(repeated) => {
                Code::While(self.boxed(&repeated.cond), Box::new(self.braces(&repeated.body)))
            }
            Expr::ForLoop(repeated) => {
                let over = self.boxed(&repeated.expr);
                let pattern = Box::new(self.pattern(&repeated.pat));
                Code::For(pattern, over, Box::new(self.braces(&repeated.body)))
            }
            Expr::Break(end) if end.label.is_none() => {
                Code::Break(end.expr.as_ref().map(|value| self.boxed(value)))
            }
            Expr::Continue(_) => Code::Continue,
            Expr::Return(end) => Code::Return(end.expr.as_ref().map(|value| self.boxed(value))),
            Expr::Try(tried) => Code::Try(self.boxed(&tried.expr)),
            Expr::Await(awaited) => {
                self.awaits += 1;
                Code::Await(self.boxed(&awaited.base))
            }
            Expr::Closure(closure) => {
                let parameters =
                    closure.inputs.iter().map(|input| self.pattern(input)).collect::<Vec<_>>();
                let (body, free) = self.inner(|this| this.expr(&closure.body));
                Code::Closure { parameters: Rc::new(parameters), body, free }
            }
            Expr::Async(block) => {
                let (body, free) = self.inner(|this| this.block(&block.block));
                Code::Async { body, free }
            }
            Expr::Macro(mac) => self.invocation(&mac.mac),
            other => unknown(other),
        }
    }

    /// Compiles the code of a closure or an `async` block, and returns the names that it reads.
    fn inner(&mut self, code: impl FnOnce(&mut Self) -> Code) -> (Rc<Code>, Rc<Vec<Name>>) {
        let (awaits, first) = (self.awaits, self.names.len());
        let body = Rc::new(code(self));
        self.awaits = awaits;
        let mut free: Vec<Name> = self.names[first..].to_vec();
        free.sort_unstable();
        free.dedup();
        (body, Rc::new(free))
    }

    fn braces(&mut self, block: &Block) -> Code {
        let before = self.awaits;
        let code = self.block(block);
        if self.awaits == before { Code::Sync(Box::new(code)) } else { code }
    }

    pub(super) fn block(&mut self, block: &Block) -> Code {
        let mut statements = Vec::new();
        let mut last = None;
        for (at, statement) in block.stmts.iter().enumerate() {
            let is_last = at + 1 == block.stmts.len();
            match statement {
                Stmt::Local(local) => {
                    let (pat, ty) = match &local.pat {
                        Pat::Type(typed) => (&*typed.pat, Some(Ty::from_syntax(&typed.ty))),
                        pat => (pat, None),
                    };
                    let Some(init) = &local.init else { unknown(local) };
                    let value = self.expr(&init.expr);
                    let otherwise = init.diverge.as_ref().map(|(_, other)| self.expr(other));
                    let pattern = self.pattern(pat);
                    statements.push(Statement::Let { pattern, ty, value, otherwise });
                }
                Stmt::Expr(expr, None) if is_last => last = Some(Box::new(self.expr(expr))),
                Stmt::Expr(expr, _) => statements.push(Statement::Expression(self.expr(expr))),
                Stmt::Macro(mac) if is_last && mac.semi_token.is_none() => {
                    last = Some(Box::new(self.invocation(&mac.mac)));
                }
                Stmt::Macro(mac) => {
                    let code = self.invocation(&mac.mac);
                    statements.push(Statement::Expression(code));
                }
                // `use` and `type` have no meaning here.
                Stmt::Item(syn::Item::Use(_) | syn::Item::Type(_)) => {}
                Stmt::Item(item) => unknown(item),
            }
        }
        Code::Block(statements, last)
    }

    fn invocation(&mut self, mac: &Macro) -> Code {
        let (_, name) = self.path(&mac.path);
        let tokens = mac.tokens.clone();
        match name {
            "format" => self.format(tokens),
            "panic" | "unreachable" => Code::Panic(Box::new(self.format(tokens))),
            "vec" => {
                let repeated = |input: ParseStream<'_>| {
                    let value: Expr = input.parse()?;
                    input.parse::<Token![;]>()?;
                    Ok((value, input.parse::<Expr>()?))
                };
                match repeated.parse2(tokens.clone()) {
                    Ok((value, count)) => Code::Repeated(self.boxed(&value), self.boxed(&count)),
                    Err(_) => Code::List(self.all(&arguments(tokens))),
                }
            }
            "matches" => {
                let parse = |input: ParseStream<'_>| {
                    let value: Expr = input.parse()?;
                    input.parse::<Token![,]>()?;
                    let pattern = input.call(Pat::parse_multi_with_leading_vert)?;
                    let guard = match input.parse::<Option<Token![if]>>()? {
                        Some(_) => Some(input.parse::<Expr>()?),
                        None => None,
                    };
                    Ok((value, pattern, guard))
                };
                let (value, pattern, guard) =
                    parse.parse2(tokens).unwrap_or_else(|error| panic!("{error}"));
                let (value, mut pattern) = (self.boxed(&value), self.pattern(&pattern));
                if let Some(guard) = guard {
                    pattern = Pattern::Guarded(Box::new(pattern), self.boxed(&guard));
                }
                let is = |yes| Code::Constant(Value::Bool(yes));
                Code::Match(value, vec![(pattern, is(true)), (Pattern::Ignored, is(false))])
            }
            "assert" => {
                let all = arguments(tokens);
                let mut all = all.iter();
                let condition = all.next().expect("an assertion has a condition");
                let message = match all.next() {
                    Some(message) => self.format_of(message, &all.cloned().collect::<Vec<_>>()),
                    None => Code::Constant(Value::text(format!(
                        "assertion failed: {}",
                        condition.to_token_stream()
                    ))),
                };
                Code::Assert(self.boxed(condition), Box::new(message))
            }
            "join" => {
                self.awaits += 1;
                Code::Join(self.all(&arguments(tokens)))
            }
            // Only its being there counts, for the line of a node.
            "line" | "file" => Code::Constant(Value::Int(0)),
            _ => unknown(mac),
        }
    }

    fn format(&mut self, tokens: TokenStream) -> Code {
        let all = arguments(tokens);
        let mut all = all.into_iter();
        let text = all.next().unwrap_or_else(|| panic!("a format has a text"));
        self.format_of(&text, &all.collect::<Vec<_>>())
    }

    fn format_of(&mut self, text: &Expr, arguments: &[Expr]) -> Code {
        let Expr::Lit(literal) = text else { unknown(text) };
        let Lit::Str(text) = &literal.lit else { unknown(text) };
        let text = text.value();
        let mut pieces = Vec::new();
        let (mut plain, mut next) = (String::new(), 0);
        let mut rest = text.as_str();
        while let Some(mark) = rest.find(['{', '}']) {
            plain.push_str(&rest[..mark]);
            let of_mark = &rest[mark..=mark];
            if rest[mark + 1..].starts_with(of_mark) {
                plain.push_str(of_mark);
                rest = &rest[mark + 2..];
                continue;
            }
            let end = mark + rest[mark..].find('}').expect("a placeholder ends");
            let inside = &rest[mark + 1..end];
            rest = &rest[end + 1..];
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain).into()));
            }
            let (name, form) = inside.split_once(':').unwrap_or((inside, ""));
            let argument = match name {
                "" => {
                    next += 1;
                    self.expr(&arguments[next - 1])
                }
                name => {
                    let named = arguments.iter().find_map(|argument| match argument {
                        Expr::Assign(named) if named.left.to_token_stream().to_string() == name => {
                            Some(&*named.right)
                        }
                        _ => None,
                    });
                    match named {
                        Some(value) => self.expr(value),
                        None => {
                            let name = intern(name);
                            self.names.push(name);
                            Code::Name(name)
                        }
                    }
                }
            };
            pieces.push(match form {
                "" => Piece::Display(argument),
                "?" => Piece::Debug(argument),
                other => panic!("the interpreter does not know the format `{other}`"),
            });
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            pieces.push(Piece::Text(plain.into()));
        }
        Code::Format(pieces)
    }

    pub(super) fn pattern(&mut self, pat: &Pat) -> Pattern {
        match pat {
            Pat::Wild(_) => Pattern::Ignored,
            Pat::Paren(inner) => self.pattern(&inner.pat),
            Pat::Type(typed) => self.pattern(&typed.pat),
            Pat::Reference(inner) => self.pattern(&inner.pat),
            Pat::Ident(bind) => {
                let name = name_of(&bind.ident);
                match &bind.subpat {
                    None if is_upper(name) => {
                        Pattern::Data { of: "", variant: name, fields: Vec::new() }
                    }
                    None => Pattern::Bind(name, None),
                    Some((_, inner)) => Pattern::Bind(name, Some(Box::new(self.pattern(inner)))),
                }
            }
            Pat::Tuple(tuple) if tuple.elems.is_empty() => Pattern::Constant(Value::Unit),
            Pat::Tuple(tuple) => {
                Pattern::Tuple(tuple.elems.iter().map(|one| self.pattern(one)).collect())
            }
            Pat::Path(path) => {
                let (of, name) = self.path(&path.path);
                Pattern::Data { of, variant: name, fields: Vec::new() }
            }
            Pat::TupleStruct(of) => {
                let (of_type, variant) = self.path(&of.path);
                let fields = of
                    .elems
                    .iter()
                    .filter(|one| !matches!(one, Pat::Rest(_)))
                    .enumerate()
                    .map(|(at, one)| (intern(&at.to_string()), self.pattern(one)))
                    .collect();
                Pattern::Data { of: of_type, variant, fields }
            }
            Pat::Struct(of) => {
                let (outer, name) = self.path(&of.path);
                let (of_type, variant) = type_and_variant(outer, name);
                let fields = of
                    .fields
                    .iter()
                    .map(|field| (member(&field.member), self.pattern(&field.pat)))
                    .collect();
                Pattern::Data { of: of_type, variant, fields }
            }
            Pat::Lit(literal) => Pattern::Constant(constant(&literal.lit)),
            Pat::Range(range) => {
                let end = |expr: &Option<Box<Expr>>| {
                    expr.as_ref().map(|expr| match self.expr(expr) {
                        Code::Constant(number) => number.as_int(),
                        _ => unknown(range),
                    })
                };
                let mut end = end;
                let (first, last) = (end(&range.start), end(&range.end));
                let open = matches!(range.limits, RangeLimits::HalfOpen(_)) && last.is_some();
                let last = last.unwrap_or(i64::MAX) - i64::from(open);
                Pattern::Range(first.unwrap_or(i64::MIN), last)
            }
            Pat::Or(cases) => {
                Pattern::Or(cases.cases.iter().map(|one| self.pattern(one)).collect())
            }
            Pat::Guard(guarded) => {
                let inner = Box::new(self.pattern(&guarded.pat));
                Pattern::Guarded(inner, self.boxed(&guarded.guard))
            }
            other => unknown(other),
        }
    }
}

/// Returns the type and the variant of a path with fields: `Item` or `Kind::Named`.
fn type_and_variant(outer: Name, name: Name) -> (Name, Name) {
    if is_upper(outer) { (outer, name) } else { (name, "") }
}

fn arguments(tokens: TokenStream) -> Arguments {
    let shown = tokens.to_string();
    Arguments::parse_terminated
        .parse2(tokens)
        .unwrap_or_else(|error| panic!("the interpreter does not know `{shown}`: {error}"))
}

fn constant(literal: &Lit) -> Value {
    match literal {
        Lit::Str(text) => Value::text(text.value()),
        Lit::Int(number) => {
            // Fingerprints use all 64 bits.
            Value::Int(number.base10_parse::<u64>().expect("a number") as i64)
        }
        Lit::Bool(yes) => Value::Bool(yes.value),
        Lit::Char(character) => Value::text(character.value().to_string()),
        other => unknown(other),
    }
}

/// Returns the operator, and `true` if it assigns.
fn operator(op: &BinOp) -> (Operator, bool) {
    match op {
        BinOp::Add(_) => (Operator::Add, false),
        BinOp::Sub(_) => (Operator::Subtract, false),
        BinOp::Mul(_) => (Operator::Multiply, false),
        BinOp::Div(_) => (Operator::Divide, false),
        BinOp::Rem(_) => (Operator::Remainder, false),
        BinOp::And(_) => (Operator::And, false),
        BinOp::Or(_) => (Operator::Or, false),
        BinOp::Eq(_) => (Operator::Equal, false),
        BinOp::Ne(_) => (Operator::NotEqual, false),
        BinOp::Lt(_) => (Operator::Less, false),
        BinOp::Le(_) => (Operator::LessOrEqual, false),
        BinOp::Gt(_) => (Operator::Greater, false),
        BinOp::Ge(_) => (Operator::GreaterOrEqual, false),
        BinOp::AddAssign(_) => (Operator::Add, true),
        BinOp::SubAssign(_) => (Operator::Subtract, true),
        BinOp::MulAssign(_) => (Operator::Multiply, true),
        BinOp::DivAssign(_) => (Operator::Divide, true),
        BinOp::RemAssign(_) => (Operator::Remainder, true),
        other => unknown(other),
    }
}

/// Returns the words of an attribute.
pub(super) fn words(tokens: TokenStream) -> Vec<String> {
    tokens
        .into_iter()
        .flat_map(|token| match token {
            TokenTree::Group(group) => words(group.stream()),
            other => vec![other.to_string()],
        })
        .collect()
}
