//! Inserts a mistake at a random place of a random document, and expects the caret there. The carets
//! of group D of the list of faults are tested one by one.

use agentflow::document::Document;
use proptest::prelude::*;

/// A kind of mistake, in the node at a position.
#[derive(Clone, Copy, Debug)]
enum Mistake {
    UnknownField,
    UnknownDependency,
    UnknownPlaceholder,
    NumberForText,
    NegativeRetries,
    OpenBrace,
}

const MISTAKES: [Mistake; 6] = [
    Mistake::UnknownField,
    Mistake::UnknownDependency,
    Mistake::UnknownPlaceholder,
    Mistake::NumberForText,
    Mistake::NegativeRetries,
    Mistake::OpenBrace,
];

impl Mistake {
    /// Returns the text of the mistake, which the document contains once.
    fn text(self) -> &'static str {
        match self {
            Self::UnknownField => "surplus",
            Self::UnknownDependency => "nowhere",
            Self::UnknownPlaceholder => "{absent}",
            Self::NumberForText => "4711",
            Self::NegativeRetries => "-815",
            Self::OpenBrace => "{",
        }
    }
}

/// Writes a document of the form `tools` whose nodes depend on nodes before them.
fn document(dependencies: &[Vec<usize>], mistake: Option<(Mistake, usize)>) -> String {
    let mut text = String::from("id: random\nnodes:\n");
    for (number, before) in dependencies.iter().enumerate() {
        let mistake = mistake.filter(|(_, at)| *at == number).map(|(mistake, _)| mistake);
        let tool = match mistake {
            Some(Mistake::NumberForText) => "4711".to_owned(),
            _ => format!("tool_{number}"),
        };
        text.push_str(&format!("  - id: step_{number}\n    tool: {tool}\n"));
        let mut names: Vec<String> =
            before.iter().map(|of| format!("step_{}", of % number.max(1))).collect();
        if number == 0 {
            names.clear();
        }
        names.sort();
        names.dedup();
        let value = match mistake {
            Some(Mistake::UnknownPlaceholder) => "about {absent} here",
            Some(Mistake::OpenBrace) => "about { here",
            _ => "about {topic} here",
        };
        text.push_str(&format!("    args_template:\n      text: \"{value}\"\n"));
        match mistake {
            Some(Mistake::UnknownDependency) => names.push("nowhere".to_owned()),
            Some(Mistake::NegativeRetries) => text.push_str("    retry_limit: -815\n"),
            Some(Mistake::UnknownField) => text.push_str("    surplus: 1\n"),
            _ => {}
        }
        text.push_str(&format!("    depends_on: [{}]\n", names.join(", ")));
    }
    text
}

proptest! {
    #[test]
    fn the_caret_is_at_the_mistake(
        dependencies in prop::collection::vec(prop::collection::vec(0_usize..20, 0..3), 1..12),
        kind in prop::sample::select(&MISTAKES[..]),
        place in any::<prop::sample::Index>(),
    ) {
        let number = place.index(dependencies.len());
        let text = document(&dependencies, Some((kind, number)));
        let mistake = kind.text();
        // The names in braces are inputs of this form, so any name is known.
        let Err(error) = Document::read("random.yaml", &*text) else {
            prop_assert!(matches!(kind, Mistake::UnknownPlaceholder), "{text}");
            return Ok(());
        };
        let begin = match kind {
            Mistake::OpenBrace => text.find("{ here").unwrap(),
            _ => text.find(mistake).unwrap(),
        };
        let spans: Vec<_> = error.problems().iter().map(|of| (of.span(), of.message())).collect();
        prop_assert!(spans.iter().any(|(span, _)| span.start == begin), "{begin}: {spans:?}\n{text}");
        let problem = error.problems().iter().find(|of| of.span().start == begin).unwrap();
        let line = text[..begin].lines().count();
        prop_assert_eq!(problem.line(), line, "{}", error);
    }
}

/// A way to write a text in YAML.
#[derive(Clone, Copy, Debug)]
enum Writing {
    Plain,
    SingleQuotes,
    DoubleQuotes,
    Folded,
    Literal,
}

const WRITINGS: [Writing; 5] = [
    Writing::Plain,
    Writing::SingleQuotes,
    Writing::DoubleQuotes,
    Writing::Folded,
    Writing::Literal,
];

impl Writing {
    /// Writes a text of one line as a value at this indentation.
    fn write(self, text: &str, indentation: usize) -> String {
        let below = " ".repeat(indentation);
        match self {
            Self::Plain => text.to_owned(),
            Self::SingleQuotes => format!("'{}'", text.replace('\'', "''")),
            Self::DoubleQuotes => {
                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
            // A space can become a line break.
            Self::Folded => {
                format!(">-\n{below}{}", text.replacen(" && ", &format!("\n{below}&& "), 1))
            }
            Self::Literal => format!("|-\n{below}{text}"),
        }
    }
}

/// A mistake in an expression: its text, the code of the problem, and the marked part.
const EXPRESSIONS: [(&str, &str, &str); 9] = [
    ("siez(order.name) > 1", "expression.unknown-function", "siez"),
    ("order.totl > 1", "graph.output-has-no-path", "order.totl"),
    ("order.total > 'many'", "expression.operator-operands", ">"),
    ("order.name + 1 == 2", "expression.operator-operands", "+"),
    ("order.total = 1", "expression.wrong-operator", "="),
    ("order.total ~ 1", "expression.unknown-sign", "~"),
    ("order.name.matches('x')", "expression.unknown-function", "matches"),
    ("nope == None", "expression.python-word", "None"),
    ("12ab == 1", "expression.number-with-letters", "12ab"),
];

/// A mistake in a text with placeholders.
const TEMPLATES: [(&str, &str, &str); 4] = [
    ("{order.totl}", "graph.placeholder-of-no-part", "{order.totl}"),
    ("{absent}", "graph.unknown-placeholder", "{absent}"),
    ("{first name}", "template.not-a-placeholder", "{first name}"),
    ("{order.}", "template.not-a-placeholder", "{order.}"),
];

/// Parts of an expression that are right.
const RIGHT: [&str; 4] =
    ["order.total > 1", "order.name == 'it''s'", "has(order.name)", "size(order.name) < 7"];

/// Writes a document of the form `graph` whose router has these conditions and whose last node has
/// this text.
fn graph_document(conditions: &[(String, Writing)], text: (&str, Writing)) -> String {
    let mut document = String::from(
        "name: shop\noutput: letter\nnodes:\n  - name: order\n    kind: input\n    schema:\n      type: object\n      \
         additionalProperties: false\n      properties: {total: {type: number}, name: {type: string}}\n      \
         required: [total, name]\n  - name: way\n    does:\n      route:\n        all: true\n        arms:\n",
    );
    for (number, (condition, writing)) in conditions.iter().enumerate() {
        let condition = writing.write(condition, 16);
        document.push_str(&format!(
            "          - arm: arm_{number}\n            when:\n              cel: {condition}\n"
        ));
    }
    document.push_str("          - arm: otherwise\n");
    let (text, writing) = text;
    let text = writing.write(text, 12);
    document.push_str(&format!(
        "  - name: letter\n    does:\n      value:\n        template: {text}\n"
    ));
    document
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// The caret is at the token of an expression, in every way to write it.
    #[test]
    fn the_caret_is_at_the_token_of_an_expression(
        before in prop::collection::vec(prop::sample::select(&RIGHT[..]), 0..3),
        after in prop::collection::vec(prop::sample::select(&RIGHT[..]), 0..2),
        arms in prop::collection::vec((prop::sample::select(&RIGHT[..]), prop::sample::select(&WRITINGS[..])), 1..4),
        place in any::<prop::sample::Index>(),
        mistake in prop::sample::select(&EXPRESSIONS[..]),
        writing in prop::sample::select(&WRITINGS[..]),
    ) {
        let (wrong, code, marked) = mistake;
        let right = |text: &str| text.replace("''", "\\'");
        let parts = before.iter().map(|of| right(of)).chain([wrong.to_owned()]);
        let condition: Vec<String> = parts.chain(after.iter().map(|of| right(of))).collect();
        let mut arms: Vec<(String, Writing)> =
            arms.iter().map(|(text, writing)| (right(text), *writing)).collect();
        let number = place.index(arms.len());
        arms[number] = (condition.join(" && "), writing);
        let text = graph_document(&arms, ("about {order.name}", Writing::DoubleQuotes));
        let error = Document::read("shop.yaml", &*text).map(drop).unwrap_err();
        let problem = error.problems().iter().find(|of| of.code().name() == code);
        let Some(problem) = problem else {
            return Err(TestCaseError::fail(format!("no {code}: {error}\n{text}")));
        };
        prop_assert_eq!(&text[problem.span()], marked, "{}\n{}", error, text);
        // It is in the arm with the mistake.
        let arm = text.find(&format!("arm: arm_{number}\n")).unwrap();
        let next = text[arm + 1..].find("- arm:").map_or(text.len(), |at| arm + 1 + at);
        prop_assert!((arm..next).contains(&problem.span().start), "{}\n{}", error, text);
    }

    /// The caret is at the placeholder of a text.
    #[test]
    fn the_caret_is_at_the_placeholder_of_a_text(
        before in "[a-z \"']{0,12}",
        after in "[a-z \"']{0,12}",
        mistake in prop::sample::select(&TEMPLATES[..]),
        writing in prop::sample::select(&WRITINGS[1..]),
    ) {
        let (wrong, code, marked) = mistake;
        let template = format!("a{before}{{order.name}} {wrong}{after}z");
        let text = graph_document(&[("order.total > 1".to_owned(), Writing::Plain)], (&template, writing));
        let error = Document::read("shop.yaml", &*text).map(drop).unwrap_err();
        let problem = error.problems().iter().find(|of| of.code().name() == code);
        let Some(problem) = problem else {
            return Err(TestCaseError::fail(format!("no {code}: {error}\n{text}")));
        };
        prop_assert_eq!(&text[problem.span()], marked, "{}\n{}", error, text);
    }
}

/// Returns the words under the carets of a document's problems.
fn marked(text: &str) -> Vec<String> {
    let error = Document::read("it.yaml", text).unwrap_err();
    error.problems().iter().map(|of| text[of.span()].to_owned()).collect()
}

#[test]
fn the_condition_is_marked_and_not_a_word_below_it() {
    let text = "name: ship\ntopology:\n  sequence:\n    - value: {total: \"{input.total}\"}\n    - route:\n        - when: input.country == 'DE'\n          then: {value: home}\n      otherwise: {value: \"{input.total} by ship\"}\n";
    assert_eq!(marked(text), ["input.country"]);
}
