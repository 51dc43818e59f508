//! Building blocks of the programs: tables of expressions, steps and tools with their types and
//! weights.

use super::syntax::{Mode, Type};

use Mode::{Name, Own, Place, Ref};
use Type::{Fault, Flag, Int, Ints, Item, Kind, Loose, Maybe, Pair, Text, Texts, Unit};

/// An expression without an `.await`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) gives: Type,
    pub(crate) text: &'static str,
    pub(crate) takes: &'static [(Mode, Type)],
    pub(crate) weight: u32,
    /// Feature that a program must have to use this.
    pub(crate) feature: Option<&'static str>,
}

const fn op(
    gives: Type,
    weight: u32,
    text: &'static str,
    takes: &'static [(Mode, Type)],
) -> Operation {
    Operation { gives, text, takes, weight, feature: None }
}

impl Operation {
    const fn only(self, feature: &'static str) -> Self {
        Self { feature: Some(feature), ..self }
    }
}

/// A call of a step, a tool or a helper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) gives: Type,
    pub(crate) text: &'static str,
    pub(crate) takes: &'static [(Mode, Type)],
    pub(crate) weight: u32,
    pub(crate) is_async: bool,
    pub(crate) can_fail: bool,
    /// Feature that a program must have to use this.
    pub(crate) feature: Option<&'static str>,
}

const fn step(
    gives: Type,
    weight: u32,
    text: &'static str,
    takes: &'static [(Mode, Type)],
) -> Step {
    Step { gives, text, takes, weight, is_async: true, can_fail: true, feature: None }
}

impl Step {
    const fn safe(self) -> Self {
        Self { can_fail: false, ..self }
    }

    const fn sync(self) -> Self {
        Self { is_async: false, can_fail: false, feature: Some("sync"), ..self }
    }

    const fn only(self, feature: &'static str) -> Self {
        Self { feature: Some(feature), ..self }
    }
}

/// All pure expressions. They keep numbers small.
pub(crate) const OPERATIONS: &[Operation] = &[
    op(Int, 4, "({0} + {1}) % 97", &[(Own, Int), (Own, Int)]),
    op(Int, 2, "{0} * 2 % 89", &[(Own, Int)]),
    op(Int, 1, "{0}.max({1})", &[(Own, Int), (Own, Int)]),
    op(Int, 1, "{0}.len() as i64", &[(Place, Ints)]),
    op(Int, 1, "{0}.len() as i64 % 40", &[(Place, Text)]),
    op(Int, 1, "{0}.iter().sum::<i64>() % 101", &[(Place, Ints)]),
    op(Int, 1, "{0}.unwrap_or({1})", &[(Own, Maybe), (Own, Int)]),
    op(Int, 2, "{0}.number", &[(Place, Item)]),
    // These can panic.
    op(Int, 1, "90 / {0}", &[(Own, Int)]),
    op(Int, 1, "{0}[0]", &[(Place, Ints)]),
    op(Int, 1, "{0}.0", &[(Place, Pair)]),
    op(Int, 1, "{ let mut total = 0; for n in {0} { total += n; } total % 83 }", &[(Own, Ints)]),
    op(Int, 1, "if {0} { {1} } else { {2} }", &[(Own, Flag), (Own, Int), (Own, Int)]),
    op(
        Int,
        1,
        "match {0} { Kind::Small(n) => n, Kind::Named { label } => label.len() as i64, Kind::Empty => {1} }",
        &[(Own, Kind), (Own, Int)],
    ),
    op(Text, 3, "format!(\"{}-{}\", {0}, {1})", &[(Own, Int), (Own, Text)]),
    op(Text, 3, "format!(\"{{0}}+{{1}}\")", &[(Name, Int), (Name, Text)]),
    op(Text, 1, "format!(\"{{0}:?}\")", &[(Name, Kind)]),
    op(Text, 1, "format!(\"{{0}:?}\")", &[(Name, Maybe)]),
    op(Text, 1, "{0}.join(\"/\")", &[(Place, Texts)]),
    op(Text, 2, "{0}.label.clone()", &[(Place, Item)]),
    op(Text, 1, "{0}.1.clone()", &[(Place, Pair)]),
    op(Text, 1, "{0}.to_uppercase()", &[(Place, Text)]),
    op(Text, 1, "{0}.to_string()", &[(Own, Flag)]),
    op(Text, 1, "{0}.to_string()", &[(Place, Fault)]),
    op(Flag, 3, "{0} > {1}", &[(Own, Int), (Own, Int)]),
    op(Flag, 2, "{0} % 2 == 0", &[(Own, Int)]),
    op(Flag, 1, "{0}.len() % 2 == 0", &[(Place, Text)]),
    op(Flag, 1, "{0}.is_some()", &[(Place, Maybe)]),
    op(Flag, 1, "!{0}.is_empty()", &[(Place, Ints)]),
    op(Flag, 1, "matches!({0}, Kind::Small(n) if *n > 3)", &[(Ref, Kind)]),
    op(Flag, 1, "{0} && {1}", &[(Own, Flag), (Own, Flag)]),
    op(Flag, 2, "{0}.is_granted()", &[(Place, Type::Approval)]),
    op(Ints, 2, "vec![{0}, {1}]", &[(Own, Int), (Own, Int)]),
    op(
        Ints,
        1,
        "{0}.into_iter().map(|n| (n + {1}) % 97).collect::<Vec<_>>()",
        &[(Own, Ints), (Own, Int)],
    ),
    op(Ints, 1, "{ let mut all = {0}; all.sort_unstable(); all }", &[(Own, Ints)]),
    op(Ints, 1, "{0}.into_iter().filter(|n| n % 2 == 1).collect::<Vec<i64>>()", &[(Own, Ints)]),
    op(Texts, 2, "vec![{0}, {1}]", &[(Own, Text), (Own, Text)]),
    op(
        Texts,
        1,
        "{0}.iter().map(|n| format!(\"n{n}\")).collect::<Vec<String>>()",
        &[(Place, Ints)],
    ),
    op(Texts, 1, "{0}.tags.clone()", &[(Place, Item)]),
    op(Maybe, 2, "Some({0})", &[(Own, Int)]),
    op(Maybe, 1, "{0}.first().copied()", &[(Place, Ints)]),
    op(Maybe, 1, "if {0} { Some({1}) } else { None }", &[(Own, Flag), (Own, Int)]),
    op(
        Item,
        2,
        "Item { number: {0}, label: {1}, tags: {2} }",
        &[(Own, Int), (Own, Text), (Own, Texts)],
    ),
    op(Item, 1, "Item { number: {0}, ..{1} }", &[(Own, Int), (Own, Item)]),
    op(Kind, 1, "Kind::Small({0})", &[(Own, Int)]),
    op(Kind, 1, "Kind::Named { label: {0} }", &[(Own, Text)]),
    op(Kind, 2, "Kind::of({0})", &[(Own, Int)]),
    op(Pair, 1, "({0}, {1})", &[(Own, Int), (Own, Text)]),
    op(Loose, 2, "Loose::Number({0})", &[(Own, Int)]),
    op(Loose, 1, "Loose::Word { word: {0} }", &[(Own, Text)]),
    op(Loose, 1, "Loose::of({0})", &[(Own, Int)]),
    op(Text, 1, "format!(\"{{0}:?}\")", &[(Name, Loose)]),
    // Methods with names of the standard library whose results depend on more than their receivers.
    op(Maybe, 2, "{0}.get({s})", &[(Place, Item)]).only("looks"),
    op(Maybe, 1, "SHELF.get({s}, {0})", &[(Own, Int)]).only("looks"),
    op(Int, 1, "{0}.len({s})", &[(Place, Item)]).only("looks"),
    op(Int, 2, "rated({0})", &[(Own, Int)]).only("shared"),
    // Statics that a tool changes: an atomic, a type of the program, and a thread-local cell.
    op(Int, 1, "(RATE.load(Ordering::SeqCst) + {0}) % 97", &[(Own, Int)]).only("shared"),
    op(Int, 1, "DIAL.get()", &[]).only("shared"),
    op(Int, 1, "DIAL.max({0})", &[(Own, Int)]).only("shared"),
    op(Int, 1, "LOCAL.with(|local| local.get())", &[]).only("shared"),
    op(Int, 1, "{ let gauge = *GAUGE.lock().unwrap(); (gauge + {0}) % 97 }", &[(Own, Int)])
        .only("shared"),
    // An operator of a type of the program.
    op(Int, 1, "{0} + {1}", &[(Own, Item), (Own, Int)]).only("operators"),
    op(Text, 1, "{0}.as_str().to_owned()", &[(Place, Item)]).only("looks"),
    op(Ints, 1, "twice({0})", &[(Own, Int)]).only("generic"),
];

/// Values that differ each time.
pub(crate) const CHANCES: &[Operation] = &[
    op(Text, 3, "new_id({s})", &[]),
    op(Text, 2, "stamp({s})", &[]),
    op(Text, 2, "hashed({s}, {0})", &[(Ref, Ints)]),
    op(Text, 2, "{0}.last({s})", &[(Place, Item)]),
    op(Text, 2, "{0}.replace({s})", &[(Place, Item)]),
    op(Text, 2, "SHELF.last({s})", &[]),
];

/// All calls.
pub(crate) const STEPS: &[Step] = &[
    step(Int, 4, "double({s}, {0})", &[(Own, Int)]),
    step(Int, 2, "next({s}, {0})", &[(Own, Int)]).safe(),
    step(Text, 2, "describe({s}, {0})", &[(Ref, Text)]),
    step(Ints, 3, "split({s}, {0})", &[(Own, Int)]),
    step(Maybe, 2, "find({s}, {0})", &[(Ref, Ints)]),
    step(Kind, 2, "classify({s}, {0})", &[(Own, Int)]),
    step(Pair, 2, "pair({s}, {0})", &[(Own, Int)]),
    step(Text, 3, "ticket({s})", &[]),
    step(Item, 4, "fetch({s}, {0})", &[(Own, Int)]),
    step(Int, 3, "lookup({s}, {0})", &[(Own, Text)]).safe(),
    step(Int, 2, "price({s}, {0})", &[(Own, Int)]).sync(),
    step(Unit, 6, "mail({s}, {0})", &[(Own, Text)]),
    step(Text, 3, "charge({s}, {0}, {1})", &[(Own, Int), (Own, Int)]),
    step(Int, 3, "book({s}, {0})", &[(Own, Item)]).safe(),
    step(Int, 3, "append({s}, {0})", &[(Own, Text)]).sync(),
    step(Int, 2, "upsert({s}, {0}, {1})", &[(Own, Int), (Own, Text)]),
    step(Int, 1, "wipe({s}, {0})", &[(Own, Int)]).only("approve"),
    step(Text, 2, "mail_and_charge({s}, {0}, {1})", &[(Own, Text), (Own, Int)]).only("hidden"),
    step(Maybe, 2, "mail_if_even({s}, {0})", &[(Own, Int)]).only("hidden"),
    step(Int, 2, "look_up({s}, {0})", &[(Own, Text)]).only("hidden"),
    step(Int, 1, "wipe_in_helper({s}, {0})", &[(Own, Int)]).only("hidden"),
    step(Int, 2, "set_rate({s}, {0})", &[(Own, Int)]).only("shared"),
    step(Int, 2, "turn({s}, {0})", &[(Own, Int)]).only("turn"),
    step(Loose, 2, "loosen({s}, {0})", &[(Own, Int)]),
    step(Item, 1, "echo::<Item>({s}, {0})", &[(Own, Item)]).only("generic"),
    step(Ints, 1, "echo({s}, {0})", &[(Own, Ints)]).only("generic"),
    step(Text, 1, "show({s}, {0})", &[(Ref, Loose)]).only("generic"),
    step(Item, 1, "mailed({s}, {0})", &[(Own, Item)]).only("hidden"),
    step(Ints, 1, "mailed::<Vec<i64>>({s}, {0})", &[(Own, Ints)]).only("hidden"),
];

/// Calls with an attribute, which must be separate statements.
pub(crate) const ATTRIBUTED: &[(Step, &str)] = &[
    (step(Unit, 1, "beacon({s}, {0})", &[(Own, Int)]).only("unordered"), "#[node(unordered)]"),
    (
        step(Text, 2, "mail_and_charge({s}, {0}, {1})", &[(Own, Text), (Own, Int)]).only("helpers"),
        "#[node(write)]",
    ),
    (step(Maybe, 2, "mail_if_even({s}, {0})", &[(Own, Int)]).only("helpers"), "#[node(write)]"),
    (
        step(Int, 1, "store_away({s}, {0})", &[(Own, Int)]).only("node-write"),
        "#[node(write, repeatable = false)]",
    ),
];

/// Steps that take a context.
pub(crate) const WITH_CONTEXT: &[Step] = &[step(Text, 2, "seen_by(cx, {s}, {0})", &[(Own, Int)])];

/// `attempt(..).await`, a `Result`.
pub(crate) const ATTEMPT: Step = step(Int, 1, "attempt({s}, {0})", &[(Own, Int)]);

/// `late(..).await`, a `Result` with an error of the library.
pub(crate) const LATE: Step = step(Int, 1, "late({s}, {0})", &[(Own, Int)]);

/// `check(..)?`.
pub(crate) const CHECK: Step =
    Step { is_async: false, ..step(Unit, 1, "check({s}, {0})", &[(Own, Int)]) };

/// Steps whose output is the input of the next round.
pub(crate) const ROUNDS: &[Step] = &[
    step(Int, 2, "double({s}, {0})", &[(Own, Int)]),
    step(Int, 1, "upsert({s}, {0}, \"round\".to_owned())", &[(Own, Int)]),
    step(Int, 1, "wipe({s}, {0})", &[(Own, Int)]).only("approve"),
    step(Int, 1, "wipe_in_helper({s}, {0})", &[(Own, Int)]).only("hidden"),
    step(Int, 1, "mail_number({s}, {0})", &[(Own, Int)]).only("hidden"),
];

/// Features of the programs. `AGENTFLOW_WITHOUT` disables them by name.
pub(crate) const FEATURES: &[&str] = &[
    "annotated",
    "approve",
    "assert",
    "bare",
    "bare-names",
    "branch-tail",
    "cases",
    "chance",
    "check",
    "cx",
    "destructure",
    "fallback",
    "for",
    "gate",
    "generic",
    "helpers",
    "hidden",
    "if",
    "if-let",
    "join",
    "let-else",
    "looks",
    "loop",
    "map",
    "map-body",
    "match",
    "match-await",
    "match-result",
    "nested",
    "node-write",
    "operators",
    "option",
    "patterns",
    "repeat",
    "return",
    "shadow",
    "shared",
    "sync",
    "tail",
    "timeout",
    "turn",
    "unit-if",
    "unordered",
    "wrap",
];
