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

/// Returns the words under the carets of a document's problems.
fn marked(text: &str) -> Vec<String> {
    let error = Document::read("it.yaml", text).unwrap_err();
    error.problems().iter().map(|of| text[of.span()].to_owned()).collect()
}

#[test]
fn the_condition_is_marked_and_not_a_word_below_it() {
    let text = "name: ship\ntopology:\n  sequence:\n    - value: {total: \"{input.total}\"}\n    - route:\n        - when: input.country == 'DE'\n          then: {value: home}\n      otherwise: {value: \"{input.total} by ship\"}\n";
    assert_eq!(marked(text), ["input.country == 'DE'"]);
}
