//! Writes a program as Rust, both as a plain function and as a workflow. The texts differ only in
//! the forms, which the function replaces by plain Rust: a loop for `map!`, a call for `gate!`.

use std::fmt::Write as _;

use super::syntax::{
    Block, Call, End, Expr, Form, Function, Mode, Pattern, Program, Statement, Value, Wrap,
};

/// A program as a module, and the zero-based line at which the workflow starts.
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) workflow: usize,
}

/// Writes a program as a module with its name.
pub(crate) fn module(program: &Program) -> Written {
    let mut text = format!("pub mod {} {{\n    use kit::*;\n", program.name);
    let line = |text: &str| text.matches('\n').count();
    text += &functions(program, true);
    let workflow = line(&text);
    text += &functions(program, false);
    text += &entry(program);
    text += "}\n";
    Written { text, workflow }
}

/// Returns the workflow as readable text.
pub(crate) fn shown(program: &Program) -> String {
    functions(program, false)
}

/// Returns the functions of a program in a module: plain functions, or workflows.
pub(crate) fn functions(program: &Program, plain: bool) -> String {
    let mut text = format!(
        "    pub mod {} {{\n        use kit::*;\n",
        if plain { "function" } else { "flow" }
    );
    for function in program.nested.iter().chain([&program.main]) {
        let mut writer = Writer { program, plain, text: String::new(), level: 2 };
        writer.function(function);
        text += &writer.text;
    }
    text += "    }\n";
    text
}

/// Writes the constant that the player reads.
fn entry(program: &Program) -> String {
    let Program { name, main, cases, .. } = program;
    let arms = |case: &dyn Fn(&[String]) -> String| {
        let arms = cases.iter().enumerate().map(|(at, values)| {
            let at = if at + 1 == cases.len() { "_".to_owned() } else { at.to_string() };
            format!("{at} => {}, ", case(values))
        });
        arms.collect::<String>()
    };
    let call = |module: &str| {
        let inputs = arms(&|values| format!("({},)", values.join(", ")));
        let mut arguments: Vec<String> =
            (0..main.parameters.len()).map(|at| format!("input.{at}")).collect();
        if main.takes_context {
            arguments.insert(0, "&Context::detached()".to_owned());
        }
        let arguments = arguments.join(", ");
        format!(
            "|case| Box::pin(async move {{ let input = match case {{ {inputs} }}; \
             outcome({module}::{name}({arguments}).await) }})"
        )
    };
    let called = if program.asks() { "None".to_owned() } else { format!("Some({})", call("flow")) };
    let inputs = arms(&|values| {
        let names = main.parameters.iter().map(|id| &program.variables[*id].name);
        let fields: Vec<String> =
            names.zip(values).map(|(name, value)| format!("\"{name}\": {value}")).collect();
        format!("serde_json::json!({{ {} }})", fields.join(", "))
    });
    format!(
        "    pub const PROGRAM: Program = Program {{\n        name: \"{name}\",\n        cases: {},\n        function: {},\n        \
         called: {called},\n        register: |builder| builder.workflow(&flow::{name}::workflow()),\n        input: |case| match case {{ {inputs} }},\n    }};\n",
        cases.len(),
        call("function"),
    )
}

struct Writer<'a> {
    program: &'a Program,
    plain: bool,
    text: String,
    level: usize,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        for _ in 0..self.level {
            self.text.push_str("    ");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn function(&mut self, function: &Function) {
        let mut parameters: Vec<String> = function
            .parameters
            .iter()
            .map(|id| format!("{}: {}", self.name(*id), self.program.variables[*id].kind.rust()))
            .collect();
        if function.takes_context {
            parameters.insert(0, "cx: &Context".to_owned());
        }
        if !self.plain {
            self.line(&format!("#[workflow{}]", function.option));
        }
        let gives = function.gives.rust();
        self.line(&format!(
            "pub async fn {}({}) -> Result<{gives}, Fault> {{",
            function.name,
            parameters.join(", ")
        ));
        self.level += 1;
        if self.plain && function.name != self.program.name {
            self.line("let _call = Called::begin();");
        }
        let inside = self.inside(&function.body);
        self.text += &inside;
        self.level -= 1;
        self.line("}");
    }

    fn name(&self, id: usize) -> &str {
        &self.program.variables[id].name
    }

    /// Writes a block's statements and end without braces, each on separate lines.
    fn inside(&mut self, block: &Block) -> String {
        let before = std::mem::take(&mut self.text);
        for statement in &block.statements {
            self.statement(statement);
        }
        match &block.end {
            End::Unit => {}
            End::Value(value) => {
                let text = self.value(value);
                self.line(&text);
            }
            End::Return(expr) => {
                let text = self.own(expr);
                self.line(&format!("return Ok({text});"));
            }
            End::Fail(site) => self.line(&format!("return Err(Fault::new(\"end {site}\"));")),
            End::Done(expr) => {
                let text = self.own(expr);
                self.line(&format!("Ok({text})"));
            }
            End::Tail(call) => {
                let text = self.future(call);
                self.line(&format!("{text}.await"));
            }
            End::Branch { condition, then, other } => {
                let (condition, then, other) =
                    (self.head(condition), self.braced(then), self.braced(other));
                self.line(&format!("if {condition} {then} else {other}"));
            }
        }
        std::mem::replace(&mut self.text, before)
    }

    fn braced(&mut self, block: &Block) -> String {
        self.level += 1;
        let inside = self.inside(block);
        self.level -= 1;
        format!("{{\n{inside}{}}}", "    ".repeat(self.level))
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Let { pattern, kind, annotated, attribute, value } => {
                let pattern = match pattern {
                    Pattern::Name(id) => self.name(*id).to_owned(),
                    Pattern::Pair(a, b) => format!("({}, {})", self.name(*a), self.name(*b)),
                    Pattern::Item(a, b) => {
                        format!(
                            "Item {{ number: {}, label: {}, .. }}",
                            self.name(*a),
                            self.name(*b)
                        )
                    }
                    Pattern::Whole(whole, number) => {
                        format!(
                            "{} @ Item {{ number: {}, .. }}",
                            self.name(*whole),
                            self.name(*number)
                        )
                    }
                    Pattern::Ignored => "_".to_owned(),
                };
                let kind = if *annotated { format!(": {}", kind.rust()) } else { String::new() };
                let value = self.value(value);
                self.attribute(*attribute);
                self.line(&format!("let {pattern}{kind} = {value};"));
            }
            Statement::Bare { value, attribute } => {
                let is_block =
                    matches!(value, Value::If { .. } | Value::IfLet { .. } | Value::Match { .. });
                let value = self.value(value);
                self.attribute(*attribute);
                // The later statements run concurrently with this one, also if it fails.
                let ahead = self.plain && *attribute == Some("#[node(unordered)]");
                let [open, close] =
                    if ahead { ["mark(Noted::Open); ", " mark(Noted::Close);"] } else { [""; 2] };
                self.line(&format!("{open}{value}{}{close}", if is_block { "" } else { ";" }));
            }
            Statement::Assert { site, condition } => {
                let condition = self.own(condition);
                self.line(&format!("assert!(holds({site}, {condition}), \"assertion {site}\");"));
            }
            Statement::LetElse { name, maybe, other } => {
                let (maybe, other, name) =
                    (self.head_value(maybe), self.braced(other), self.name(*name).to_owned());
                self.line(&format!("let Some({name}) = {maybe} else {other};"));
            }
            Statement::For { name, over, body } => {
                let (over, body, name) =
                    (self.head(over), self.braced(body), self.name(*name).to_owned());
                self.line(&format!("for {name} in {over} {body}"));
            }
        }
    }

    fn attribute(&mut self, attribute: Option<&str>) {
        if let Some(attribute) = attribute.filter(|_| !self.plain) {
            self.line(attribute);
        }
    }

    fn value(&mut self, value: &Value) -> String {
        match value {
            Value::Pure(expr) => self.own(expr),
            Value::Call { call, wrap } => self.wrapped(call, wrap),
            Value::If { condition, then, other } => {
                let (condition, then) = (self.head(condition), self.braced(then));
                let other = other.as_ref().map(|other| format!(" else {}", self.braced(other)));
                format!("if {condition} {then}{}", other.unwrap_or_default())
            }
            Value::IfLet { name, maybe, then, other } => {
                let (maybe, then, name) =
                    (self.head_value(maybe), self.braced(then), self.name(*name).to_owned());
                let other = other.as_ref().map(|other| format!(" else {}", self.braced(other)));
                format!("if let Some({name}) = {maybe} {then}{}", other.unwrap_or_default())
            }
            Value::Match { scrutinee, arms } => {
                let scrutinee = self.head_value(scrutinee);
                let mut text = format!("match {scrutinee} {{\n");
                self.level += 1;
                for arm in arms {
                    let name = arm.name.map(|id| self.name(id).to_owned()).unwrap_or_default();
                    let guard = arm.guard.as_ref().map(|guard| format!(" if {}", self.own(guard)));
                    let (pattern, body) =
                        (arm.pattern.replace("{0}", &name), self.braced(&arm.body));
                    let indent = "    ".repeat(self.level);
                    let _ =
                        writeln!(text, "{indent}{pattern}{} => {body}", guard.unwrap_or_default());
                }
                self.level -= 1;
                let _ = write!(text, "{}}}", "    ".repeat(self.level));
                text
            }
            Value::Map { name, over, body, serial } => self.map(*name, over, body, *serial),
            Value::Repeat { first, name, call, until, max } => {
                let (first, call, name) =
                    (self.own(first), self.future(call), self.name(*name).to_owned());
                if self.plain {
                    return format!(
                        "{{ let mut rounds = 0; let mut {name} = {first}; loop {{ {name} = {call}.await?; rounds += 1; let last = &{name}; \
                         if {until} || rounds == {max} {{ break {name}; }} }} }}"
                    );
                }
                format!(
                    "repeat!({first}, |{name}| {call}, until = |last| {until}, max = {max}).await?"
                )
            }
            Value::Fallback { first, second } => {
                let (first, second) = (self.future(first), self.future(second));
                if self.plain {
                    // A branch that panics has failed, like any step.
                    return format!(
                        "match caught(async {{ {first}.await }}).await {{ Some(Ok(value)) => value, _ => {second}.await? }}"
                    );
                }
                format!("fallback!({first}, {second}).await?")
            }
            Value::Timeout(call) => {
                let call = self.future(call);
                if self.plain {
                    format!("{call}.await?")
                } else {
                    format!("timeout!(\"1h\", {call}).await?")
                }
            }
            Value::Gate { site, about } => {
                let about =
                    about.map(|id| format!(" about {{{}}}", self.name(id))).unwrap_or_default();
                let question = format!("\"gate {site}{about}?\"");
                if self.plain {
                    format!("ask(format!({question})).await?")
                } else {
                    format!("gate!({question}).await?")
                }
            }
            Value::Tried(call) => format!("{}.await", self.future(call)),
        }
    }

    fn map(&mut self, name: usize, over: &Expr, body: &Block, serial: bool) -> String {
        let (over, name) = (self.own(over), self.name(name).to_owned());
        if !self.plain {
            // A single call is written without a block.
            if let ([], End::Value(value)) = (&body.statements[..], &body.end)
                && let Value::Call { call, wrap: Wrap::Bare } = &**value
                && call.can_fail
            {
                return format!("map!({over}, |{name}| {}).await?", self.future(call));
            }
            return format!("map!({over}, |{name}| {}).await?", self.braced(body));
        }
        let body = self.braced(body);
        let marks = ["mark(Noted::Open);", "mark(Noted::Item);", "mark(Noted::Close);"];
        let [open, item, close] = if serial { [""; 3] } else { marks };
        format!(
            "{{ let mut all = Vec::new(); {open} for {name} in {over} {{ {item} all.push({body}); }} {close} all }}"
        )
    }

    fn wrapped(&mut self, call: &Call, wrap: &Wrap) -> String {
        match wrap {
            Wrap::Bare => self.awaited(call),
            Wrap::Some => format!("Some({})", self.awaited(call)),
            Wrap::MapErr => {
                format!(
                    "{}.await.map_err(|error| Fault::from(error).at(\"place {}\"))?",
                    self.future(call),
                    call.form.site
                )
            }
            Wrap::Loop => {
                let call = self.awaited(call);
                format!(
                    "{{ let mut last = {call}; let mut rounds = 0; while rounds < 2 {{ last = {call}; rounds += 1; }} last }}"
                )
            }
            Wrap::Block => format!("{{ let inner = {}; inner }}", self.awaited(call)),
            Wrap::Pair(second) => format!("({}, {})", self.awaited(call), self.awaited(second)),
            Wrap::Join(second) => {
                let [first_end, second_end] =
                    [call, &**second].map(|call| if call.can_fail { "?" } else { "" });
                let (first, second) = (self.future(call), self.future(second));
                match self.plain {
                    true => format!(
                        "{{ mark(Noted::Open); let (left, right) = tokio::join!(item({first}), item({second})); \
                         mark(Noted::Close); (left{first_end}, right{second_end}) }}"
                    ),
                    false => format!(
                        "{{ let (left, right) = tokio::join!({first}, {second}); (left{first_end}, right{second_end}) }}"
                    ),
                }
            }
        }
    }

    fn awaited(&mut self, call: &Call) -> String {
        let (future, end) = (self.future(call), if call.can_fail { "?" } else { "" });
        if call.is_async { format!("{future}.await{end}") } else { format!("{future}{end}") }
    }

    fn future(&mut self, call: &Call) -> String {
        self.form(&call.form)
    }

    // Expressions.

    fn form(&self, form: &Form) -> String {
        let mut text = form.text.replace("{s}", &form.site.to_string());
        for (at, (mode, argument)) in form.arguments.iter().enumerate() {
            let argument = match (mode, argument) {
                (Mode::Own, argument) => self.operand(argument),
                (Mode::Place | Mode::Name, Expr::Variable(id)) => self.name(*id).to_owned(),
                (Mode::Ref, Expr::Variable(id)) => format!("&{}", self.name(*id)),
                (Mode::Ref, argument) => format!("&{}", self.operand(argument)),
                (Mode::Place | Mode::Name, argument) => format!("({})", self.own(argument)),
            };
            text = text.replace(&format!("{{{at}}}"), &argument);
        }
        text
    }

    fn own(&self, expr: &Expr) -> String {
        match expr {
            Expr::Literal(text) => text.clone(),
            Expr::Variable(id) => {
                let variable = &self.program.variables[*id];
                if variable.kind.is_copy() {
                    variable.name.clone()
                } else {
                    format!("{}.clone()", variable.name)
                }
            }
            Expr::Form(form) => self.form(form),
        }
    }

    /// Adds parentheses if the text has braces and a block follows.
    fn head(&self, expr: &Expr) -> String {
        let text = self.own(expr);
        if text.contains(" { ") { format!("({text})") } else { text }
    }

    fn head_value(&mut self, value: &Value) -> String {
        match value {
            Value::Pure(expr) => self.head(expr),
            other => {
                let text = self.value(other);
                if text.contains(" { ") { format!("({text})") } else { text }
            }
        }
    }

    /// Adds parentheses if the text is an operand of an operator.
    fn operand(&self, expr: &Expr) -> String {
        match expr {
            Expr::Form(form)
                if !form.text.starts_with("format!") && !form.text.starts_with("vec!") =>
            {
                format!("({})", self.form(form))
            }
            other => self.own(other),
        }
    }
}
