//! Detects expressions that depend only on the values that they read: arithmetic, macros such as
//! `format!`, and methods of the standard library. Other expressions may observe the effect of an
//! earlier step, so they are computed after the steps above them.
//!
//! A method is known by its name and the type of its receiver. Only the compiler knows the type.
//! Therefore the expansion puts code that never runs in front of the call. Type inference on this
//! code determines the type of a variable outside of the closure.
//!
//! ```text
//! let told_0 = told();
//! steps.value(Node::new("n").at_its_place_unless([told_0.is_standard()]), (text,), move |(text,)| {
//!     Ok((if NEVER { told_0.tell(Receiver(&text).kind()) }, text.len()).1 + 1)
//! })
//! ```

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::ext::IdentExt;
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Block, Expr, ExprCall, ExprMethodCall, ExprPath, Item, Lit, Local, Macro, Pat, Stmt, Token,
    UnOp,
};

use super::operands::{OperandForm, has_outer_struct, in_front_of, is_overloadable, operand_form};
use super::standard_names::{FUNCTIONS, MACROS, METHODS, OF_ANY_VALUE, TYPES};
use super::syntax::{awaits, macro_name, plain};
use crate::patterns::names;
use crate::scope::placeholders;

/// The dependencies of an expression.
pub(super) enum Purity {
    /// The expression depends only on the values that it reads.
    Known,
    /// The expression depends only on them if these variables have types of the standard library.
    IfStandard(Vec<Ident>),
    /// The expression may depend on other state.
    Unknown,
}

impl Purity {
    /// Generates the statements that declare the variables.
    pub(super) fn declared(&self, private: &TokenStream) -> TokenStream {
        let Self::IfStandard(told) = self else { return TokenStream::new() };
        quote!(#(let #told = #private::told();)*)
    }

    /// Generates the method call on the node: `method`, or `method_unless` if the types decide.
    pub(super) fn place(&self, method: &str) -> TokenStream {
        let (method, unless) = (format_ident!("{method}"), format_ident!("{method}_unless"));
        match self {
            Self::Known => TokenStream::new(),
            Self::Unknown => quote!(.#method()),
            Self::IfStandard(told) => quote!(.#unless([#(#told.is_standard()),*])),
        }
    }

    /// Generates the variables as nested pairs, for trait resolution.
    pub(super) fn as_pairs(&self) -> Option<TokenStream> {
        match self {
            Self::Known => Some(quote!(())),
            Self::IfStandard(told) => {
                Some(told.iter().fold(quote!(()), |pairs, told| quote!((#pairs, #told))))
            }
            Self::Unknown => None,
        }
    }
}

/// Analyzes expressions that are computed together.
pub(super) struct Judge<'j> {
    is_local: &'j dyn Fn(&str) -> bool,
    private: &'j TokenStream,
    span: Span,
    /// Names that the expression itself binds.
    own: Vec<String>,
    told: Vec<Ident>,
    /// Questions about types that need no variable of the expression.
    first: TokenStream,
    is_unknown: bool,
}

/// The result for a group of expressions.
pub(super) struct PurityResult {
    pub(super) purity: Purity,
    /// Code in front of the expressions.
    pub(super) first: TokenStream,
}

impl<'j> Judge<'j> {
    pub(super) fn new(
        is_local: &'j dyn Fn(&str) -> bool,
        private: &'j TokenStream,
        span: Span,
    ) -> Self {
        Self {
            is_local,
            private,
            span,
            own: Vec::new(),
            told: Vec::new(),
            first: TokenStream::new(),
            is_unknown: false,
        }
    }

    /// Analyzes an expression without a step, and adds questions to the compiler.
    pub(super) fn value(&mut self, expr: &Expr) -> Expr {
        let mut asking = expr.clone();
        self.visit_expr_mut(&mut asking);
        if self.is_unknown { expr.clone() } else { asking }
    }

    /// Analyzes the code of a step before its first `.await`: the arguments of its calls. If
    /// `is_future` is `true`, the expansion adds the `.await`.
    pub(super) fn arguments(&mut self, expr: &Expr, is_future: bool) -> Expr {
        let mut asking = expr.clone();
        if is_future {
            self.future(&mut asking);
        } else {
            self.before_await(&mut asking);
        }
        if self.is_unknown { expr.clone() } else { asking }
    }

    pub(super) fn judged(self) -> PurityResult {
        let (purity, first) = match (self.is_unknown, self.told.is_empty()) {
            (true, _) => (Purity::Unknown, TokenStream::new()),
            (false, true) => (Purity::Known, TokenStream::new()),
            (false, false) => (Purity::IfStandard(self.told), self.first),
        };
        PurityResult { purity, first }
    }

    fn is_variable(&self, name: &str) -> bool {
        self.own.iter().any(|own| own == name) || (self.is_local)(name)
    }

    fn bind(&mut self, pat: &Pat) {
        self.own.extend(names(pat).iter().map(|ident| ident.unraw().to_string()));
    }

    fn variable(&mut self) -> Ident {
        let told = format_ident!(
            "told_{}",
            self.told.len(),
            span = self.span.resolved_at(Span::mixed_site())
        );
        self.told.push(told.clone());
        told
    }

    /// Adds a question about the receiver of a method in front of its call.
    fn asking(&mut self, receiver: &Expr, call: &ExprMethodCall) -> Expr {
        let (told, private) = (self.variable(), self.private);
        syn::parse_quote! {
            (if #private::NEVER { #told.tell(#private::Receiver(&#receiver).kind()) }, #call).1
        }
    }

    /// Asks about the operands of an operator, because a type of the program can implement the
    /// operator with any code. Returns the questions, which are in front of the operator.
    fn operands(&mut self, operands: &[&Expr]) -> Vec<TokenStream> {
        let forms: Vec<OperandForm> =
            operands.iter().map(|operand| operand_form(operand)).collect();
        let is_asked = forms.contains(&OperandForm::Asked);
        // A constructed operand has the type of the other one, or a type that is not known here.
        if forms.contains(&OperandForm::Unknown)
            || forms.contains(&OperandForm::Constructed) && !is_asked
        {
            self.is_unknown = true;
            return Vec::new();
        }
        let mut questions = Vec::new();
        for (operand, form) in operands.iter().zip(forms) {
            if form == OperandForm::Asked {
                let (told, private) = (self.variable(), self.private);
                questions.push(quote!(
                    if #private::NEVER { #told.tell(#private::Receiver(&#operand).kind()) }
                ));
            }
        }
        questions
    }

    /// Adds a question in front of the whole expression.
    fn ask_first(&mut self, question: &TokenStream) {
        let (told, private) = (self.variable(), self.private);
        self.first.extend(quote!(if #private::NEVER { #told.tell(#question.kind()) }));
    }

    /// Asks about the type of a constant or a static.
    fn item(&mut self, path: &impl ToTokens) {
        let private = self.private;
        self.ask_first(&quote!(#private::Receiver(&#path)));
    }

    /// Analyzes the code before the first `.await`. The remaining code runs after the step has
    /// started to wait.
    fn before_await(&mut self, expr: &mut Expr) {
        if awaits(expr).is_none() {
            return self.visit_expr_mut(expr);
        }
        match expr {
            Expr::Paren(inner) => self.before_await(&mut inner.expr),
            Expr::Group(inner) => self.before_await(&mut inner.expr),
            Expr::Try(tried) => self.before_await(&mut tried.expr),
            Expr::Field(field) => self.before_await(&mut field.base),
            Expr::Reference(reference) => self.before_await(&mut reference.expr),
            Expr::Cast(cast) => self.before_await(&mut cast.expr),
            Expr::Tuple(tuple) => tuple.elems.iter_mut().for_each(|one| self.before_await(one)),
            Expr::Array(array) => array.elems.iter_mut().for_each(|one| self.before_await(one)),
            Expr::Await(awaited) => self.future(&mut awaited.base),
            Expr::MethodCall(call) if awaits(&call.receiver).is_some() => {
                self.before_await(&mut call.receiver);
            }
            Expr::Call(call) => {
                call.args.iter_mut().for_each(|argument| self.before_await(argument));
            }
            Expr::Macro(mac) => self.each_argument(&mut mac.mac, Self::future),
            Expr::Block(block) => {
                for statement in &mut block.block.stmts {
                    match statement {
                        Stmt::Local(Local { init: Some(init), pat, .. }) => {
                            let awaited = awaits(&init.expr).is_some();
                            self.before_await(&mut init.expr);
                            if awaited {
                                return;
                            }
                            self.bind(pat);
                        }
                        Stmt::Expr(expr, _) => {
                            let awaited = awaits(expr).is_some();
                            self.before_await(expr);
                            if awaited {
                                return;
                            }
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    /// Analyzes the arguments of a future, which are computed before it is polled.
    fn future(&mut self, future: &mut Expr) {
        match future {
            Expr::Paren(inner) => self.future(&mut inner.expr),
            Expr::Group(inner) => self.future(&mut inner.expr),
            Expr::Call(call) => {
                call.args.iter_mut().for_each(|argument| self.before_await(argument));
            }
            Expr::MethodCall(call) => {
                // The last method is the step itself.
                match &*call.receiver {
                    Expr::MethodCall(_) | Expr::Call(_) => self.future(&mut call.receiver),
                    _ => {}
                }
                call.args.iter_mut().for_each(|argument| self.before_await(argument));
            }
            Expr::Macro(mac) => self.each_argument(&mut mac.mac, Self::future),
            _ => {}
        }
    }

    /// Analyzes the comma-separated arguments of a macro.
    fn each_argument(&mut self, mac: &mut Macro, judge: fn(&mut Self, &mut Expr)) {
        let arguments = Punctuated::<Expr, Token![,]>::parse_terminated;
        let Ok(mut arguments) = arguments.parse2(mac.tokens.clone()) else {
            if calls_in(mac.tokens.clone()) {
                self.is_unknown = true;
            }
            return;
        };
        arguments.iter_mut().for_each(|argument| judge(self, argument));
        mac.tokens = arguments.to_token_stream();
    }

    /// Analyzes the names in the text of a macro such as `format!`.
    fn shown(&mut self, text: &syn::LitStr) {
        for name in
            placeholders(&text.value()).filter(|name| !self.is_variable(name)).collect::<Vec<_>>()
        {
            match is_constant_by_name(name) {
                true => self.item(&Ident::new(name, text.span())),
                false => self.is_unknown = true,
            }
        }
    }

    /// Analyzes a path that is a value: a variable, a constant, a variant or a function.
    fn path(&mut self, path: &ExprPath) {
        let Some(last) = path.path.segments.last() else { return };
        let name = last.ident.unraw().to_string();
        let is_variable =
            path.qself.is_none() && path.path.get_ident().is_some() && self.is_variable(&name);
        if is_variable || is_variant(&name) {
            return;
        }
        match is_constant_by_name(&name) {
            true => self.item(path),
            // A function, such as `String::as_str` in `map(String::as_str)`.
            false => self.function(path),
        }
    }

    /// Analyzes a function, which must belong to a type of the standard library.
    fn function(&mut self, path: &ExprPath) {
        match self.of_type(path) {
            // A call that the expansion has added.
            _ if path.path.leading_colon.is_some() && path.path.segments[0].ident == "core" => {}
            Some(question) => self.ask_first(&question),
            None => self.is_unknown = true,
        }
    }

    /// Returns the question about the type of a path such as `String::from`.
    fn of_type(&self, path: &ExprPath) -> Option<TokenStream> {
        let is_known =
            |name: &str| METHODS.contains(&name) || FUNCTIONS.contains(&name) || is_of_any(name);
        let mut words = path.path.segments.iter().rev();
        let (method, of) = (words.next()?, words.next()?);
        let (_, parameters) = TYPES.iter().find(|(name, _)| of.ident == name)?;
        if path.qself.is_some() || !is_known(&method.ident.unraw().to_string()) {
            return None;
        }
        let private = self.private;
        let mut of_type = path.path.clone();
        of_type.segments.pop();
        of_type.segments.pop_punct();
        if let Some(last) = of_type.segments.last_mut()
            && last.arguments.is_none()
            && *parameters > 0
        {
            let unknown = (0..*parameters).map(|_| quote!(()));
            last.arguments =
                syn::PathArguments::AngleBracketed(syn::parse_quote!(::<#(#unknown),*>));
        }
        Some(quote!(#private::Named::<#of_type>(::core::marker::PhantomData)))
    }

    fn call(&mut self, call: &mut ExprCall) {
        call.args.iter_mut().for_each(|argument| self.visit_expr_mut(argument));
        let Expr::Path(path) = plain(&call.func) else {
            self.is_unknown = true;
            return;
        };
        let name = path
            .path
            .segments
            .last()
            .map(|last| last.ident.unraw().to_string())
            .unwrap_or_default();
        // A name with an upper-case letter constructs a value.
        if !name.starts_with(char::is_uppercase) {
            self.function(path);
        }
    }

    fn method(&mut self, call: &mut ExprMethodCall) -> Option<Expr> {
        let (name, receiver) = (call.method.unraw().to_string(), call.receiver.clone());
        self.visit_expr_mut(&mut call.receiver);
        call.args.iter_mut().for_each(|argument| self.visit_expr_mut(argument));
        if is_of_any(&name) || is_literal(&receiver) {
            return None;
        }
        // If the receiver's type is inferred from this call, a question about it would be
        // ambiguous.
        if !METHODS.contains(&name.as_str()) || is_inferred(&receiver) {
            self.is_unknown = true;
            return None;
        }
        Some(self.asking(&receiver, call))
    }
}

/// Returns `true` for a call whose type is inferred from the use of its value, such as
/// `n.try_into()`.
pub(super) fn is_inferred(receiver: &Expr) -> bool {
    const INFERRED: [&str; 8] =
        ["collect", "default", "from", "into", "parse", "product", "sum", "try_into"];
    match plain(receiver) {
        Expr::MethodCall(call) => {
            call.turbofish.is_none() && INFERRED.iter().any(|name| call.method == *name)
        }
        _ => false,
    }
}

impl VisitMut for Judge<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        if self.is_unknown {
            return;
        }
        let instead = match expr {
            Expr::Path(path) => {
                self.path(path);
                None
            }
            Expr::Call(call) => {
                self.call(call);
                None
            }
            Expr::Repeat(repeated) => {
                self.visit_expr_mut(&mut repeated.expr);
                None
            }
            Expr::MethodCall(call) => self.method(call),
            Expr::Paren(paren) => {
                let needs_parentheses = has_outer_struct(&paren.expr);
                self.visit_expr_mut(&mut paren.expr);
                // Questions in front of an operator add parentheses. The compiler would report the
                // user's parentheses around them as unnecessary, although a struct needs them.
                let has_questions = needs_parentheses && matches!(*paren.expr, Expr::Field(_));
                has_questions.then(|| (*paren.expr).clone())
            }
            Expr::Binary(both) if is_overloadable(&both.op) => {
                let operands = [(*both.left).clone(), (*both.right).clone()];
                self.visit_expr_mut(&mut both.left);
                self.visit_expr_mut(&mut both.right);
                let questions = self.operands(&[&operands[0], &operands[1]]);
                in_front_of(&questions, &Expr::Binary(both.clone()))
            }
            Expr::Index(index) => {
                let base = (*index.expr).clone();
                self.visit_expr_mut(&mut index.expr);
                self.visit_expr_mut(&mut index.index);
                // The element stays a place, so the question is in front of the index.
                let questions = self.operands(&[&base]);
                if let Some(instead) = in_front_of(&questions, &index.index) {
                    *index.index = instead;
                }
                None
            }
            Expr::Closure(closure) if closure.asyncness.is_none() => {
                closure.inputs.iter().for_each(|input| self.bind(input));
                self.visit_expr_mut(&mut closure.body);
                None
            }
            Expr::Let(test) => {
                self.visit_expr_mut(&mut test.expr);
                self.bind(&test.pat);
                None
            }
            Expr::Match(cases) => {
                self.visit_expr_mut(&mut cases.expr);
                for arm in &mut cases.arms {
                    self.bind(&arm.pat);
                    if let Pat::Guard(guard) = &mut arm.pat {
                        self.visit_expr_mut(&mut guard.guard);
                    }
                    self.visit_expr_mut(&mut arm.body);
                }
                None
            }
            Expr::ForLoop(repeated) => {
                self.visit_expr_mut(&mut repeated.expr);
                self.bind(&repeated.pat);
                self.visit_block_mut(&mut repeated.body);
                None
            }
            Expr::Macro(mac) => {
                self.visit_macro_mut(&mut mac.mac);
                None
            }
            Expr::Unary(unary) => {
                // `Deref` of a type of the program can execute any code. A variable is a copy of a
                // recorded value.
                let is_item = matches!(plain(&unary.expr), Expr::Path(path)
                    if !path.path.get_ident().is_some_and(|ident| self.is_variable(&ident.unraw().to_string())));
                if is_item && matches!(unary.op, UnOp::Deref(_)) {
                    self.is_unknown = true;
                }
                self.visit_expr_mut(&mut unary.expr);
                None
            }
            Expr::Lit(_)
            | Expr::Array(_)
            | Expr::Assign(_)
            | Expr::Binary(_)
            | Expr::Block(_)
            | Expr::Break(_)
            | Expr::Cast(_)
            | Expr::Continue(_)
            | Expr::Field(_)
            | Expr::Group(_)
            | Expr::If(_)
            | Expr::Loop(_)
            | Expr::Range(_)
            | Expr::Reference(_)
            | Expr::Return(_)
            | Expr::Struct(_)
            | Expr::Try(_)
            | Expr::Tuple(_)
            | Expr::While(_) => {
                visit_mut::visit_expr_mut(self, expr);
                None
            }
            _ => {
                self.is_unknown = true;
                None
            }
        };
        if let Some(instead) = instead {
            *expr = instead;
        }
    }

    fn visit_block_mut(&mut self, block: &mut Block) {
        for statement in &mut block.stmts {
            match statement {
                Stmt::Local(local) => {
                    if let Some(init) = &mut local.init {
                        self.visit_expr_mut(&mut init.expr);
                        if let Some((_, diverge)) = &mut init.diverge {
                            self.visit_expr_mut(diverge);
                        }
                    }
                    self.bind(&local.pat);
                }
                Stmt::Expr(expr, _) => self.visit_expr_mut(expr),
                Stmt::Macro(mac) => self.visit_macro_mut(&mut mac.mac),
                Stmt::Item(_) => {}
            }
        }
    }

    fn visit_macro_mut(&mut self, mac: &mut Macro) {
        let name = macro_name(mac);
        if !MACROS.contains(&name.as_str()) {
            return self.is_unknown = true;
        }
        for token in mac.tokens.clone() {
            if let TokenTree::Literal(literal) = token
                && let Lit::Str(text) = Lit::new(literal)
            {
                self.shown(&text);
            }
        }
        match name.as_str() {
            // These macros print the source text of their arguments. The arguments must stay
            // unchanged, so the questions are asked about a copy in front.
            "assert" | "debug_assert" | "ensure" => {
                let (mut asking, told) = (mac.clone(), self.told.len());
                self.each_argument(&mut asking, Self::visit_expr_mut);
                if self.told.len() > told {
                    let (private, arguments) = (self.private, asking.tokens);
                    self.is_unknown |= !self.own.is_empty();
                    self.first.extend(quote!(if #private::NEVER { let _ = (#arguments,); #private::not_this_arm() }));
                }
            }
            // The pattern is not an expression.
            "matches" => self.is_unknown |= calls_in(mac.tokens.clone()),
            "stringify" | "cfg" => {}
            _ => self.each_argument(mac, |judge, argument| match argument {
                // `name = value` in a format.
                Expr::Assign(named) => judge.visit_expr_mut(&mut named.right),
                argument => judge.visit_expr_mut(argument),
            }),
        }
    }

    fn visit_item_mut(&mut self, _: &mut Item) {}

    fn visit_pat_mut(&mut self, _: &mut Pat) {}

    fn visit_type_mut(&mut self, _: &mut syn::Type) {}

    fn visit_path_mut(&mut self, _: &mut syn::Path) {}
}

fn is_of_any(name: &str) -> bool {
    OF_ANY_VALUE.contains(&name)
}

fn is_literal(expr: &Expr) -> bool {
    matches!(plain(expr), Expr::Lit(_))
}

/// Returns `true` for names such as `Some` and `Kind`, and `false` for `LIMIT`.
fn is_variant(name: &str) -> bool {
    name.chars().next().is_some_and(char::is_uppercase) && name.chars().any(char::is_lowercase)
}

fn is_constant_by_name(name: &str) -> bool {
    name.chars().any(char::is_uppercase) && !name.chars().any(char::is_lowercase)
}

/// Returns `true` if tokens contain a call to a function or method. A variant with values is not a
/// call.
fn calls_in(tokens: TokenStream) -> bool {
    let mut before: Option<String> = None;
    tokens.into_iter().any(|token| {
        let name = match &token {
            TokenTree::Ident(ident) => Some(ident.unraw().to_string()),
            _ => None,
        };
        let called = std::mem::replace(&mut before, name);
        match token {
            TokenTree::Group(group) => {
                let is_arguments = group.delimiter() == proc_macro2::Delimiter::Parenthesis;
                is_arguments
                    && called.is_some_and(|name| {
                        !name.starts_with(char::is_uppercase)
                            && !matches!(name.as_str(), "if" | "in" | "ref" | "mut")
                    })
                    || calls_in(group.stream())
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use quote::quote;

    use super::{Judge, Purity};

    fn purity(text: &str, of_step: bool) -> String {
        let expr: syn::Expr =
            syn::parse_str(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let (is_local, private) = (|name: &str| name.len() == 1, quote!(p));
        let mut judge = Judge::new(&is_local, &private, proc_macro2::Span::call_site());
        let _ = if of_step { judge.arguments(&expr, false) } else { judge.value(&expr) };
        match judge.judged().purity {
            Purity::Known => "known".to_owned(),
            Purity::Unknown => "unknown".to_owned(),
            Purity::IfStandard(told) => format!("asks {}", told.len()),
        }
    }

    #[test]
    fn values() {
        for (text, expected) in [
            ("a + 1", "asks 1"),
            ("format!(\"{a}\")", "known"),
            ("Item { number: a, tags: vec![b.clone()] }", "known"),
            ("Some((a, b))", "known"),
            ("if a > 1 { b } else { c }", "asks 1"),
            ("a.len() + 1", "asks 2"),
            ("a.iter().map(|x| x.trim()).collect::<Vec<_>>()", "asks 4"),
            ("a.map(String::as_str)", "asks 2"),
            ("String::from(a)", "asks 1"),
            ("Vec::new()", "asks 1"),
            ("a * LIMIT", "asks 2"),
            ("{ let mut x = a; x.sort(); x }", "asks 1"),
            ("3 + 4", "known"),
            ("a + b", "asks 2"),
            ("(a + 1) % 97", "asks 1"),
            ("a == None", "asks 1"),
            ("a.name == Some(3)", "asks 1"),
            ("a == Kind::Small", "asks 1"),
            ("a[0]", "asks 1"),
            ("a && b", "known"),
            ("Item { number: a } + 3", "unknown"),
            ("a.parse().unwrap() + 1", "unknown"),
            ("{ let mut x = 0; x += a; x }", "asks 2"),
            ("helper(a)", "unknown"),
            ("a.label()", "unknown"),
            ("format!(\"{}\", helper(a))", "unknown"),
            ("format!(\"{counter}\")", "unknown"),
            ("a.map(helper)", "unknown"),
            ("a.iter().map(|x| helper(x)).sum::<u8>()", "unknown"),
            ("fs::read_to_string(a)", "unknown"),
            ("a.exists()", "unknown"),
            ("now()", "unknown"),
            ("matches!(a, Some(x) if x > 3)", "known"),
            ("matches!(helper(a), Some(_))", "unknown"),
            ("dbg!(a)", "unknown"),
            ("*GLOBAL", "unknown"),
            ("unsafe { a }", "unknown"),
        ] {
            assert_eq!(purity(text, false), expected, "{text}");
        }
    }

    #[test]
    fn arguments_of_steps() {
        for (text, expected) in [
            ("step(a, &b).await?", "known"),
            ("step(a.len()).await?", "asks 1"),
            ("step(helper(a)).await?", "unknown"),
            ("step(a).await.map_err(|error| helper(error))?", "known"),
            ("step(a).await.context(\"text\")?", "known"),
            ("CLIENT.get(a).await?", "known"),
            ("CLIENT.get(helper(a)).send().await?", "unknown"),
            ("(helper(a), step(b).await?)", "unknown"),
            ("{ let x = step(a).await?; helper(x) }", "known"),
            ("{ let x = helper(a); step(x).await? }", "unknown"),
            ("join!(step(a), step(helper(b)))", "unknown"),
        ] {
            assert_eq!(purity(text, true), expected, "{text}");
        }
    }
}
