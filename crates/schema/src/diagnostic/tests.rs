//! Tests of diagnostics: the sentence, and the data that tools read.

use serde_json::json;

use super::*;

const UNKNOWN: Code = Code::new("test.unknown", "{what} has no {name}", "write {{other}} {hint}");

#[test]
fn the_sentence_has_subject_problem_and_remedy() {
    let of = || {
        let new = Diagnostic::new(UNKNOWN).text("what", "a list").name("name", "nmae");
        new.text("other", "it").text("hint", "once").of(DiagnosticSubject::node("a/b"))
    };
    assert_eq!(of().message(), "the node `a/b`: a list has no `nmae`; write {it} once");
    let near = of().suggest(Suggestion::similar(Some("name")));
    assert_eq!(near.message(), "the node `a/b`: a list has no `nmae`; did you mean `name`?");
    let without = of().suggest(Suggestion::similar(None::<&str>));
    assert_eq!(without, of());
}

#[test]
fn tools_read_the_data() {
    let found = Diagnostic::new(UNKNOWN)
        .text("what", "it")
        .name("name", "x")
        .text("other", "it")
        .text("hint", "now");
    let found = found.in_graph("g").at_pointer("/nodes/0").at(3..4);
    assert_eq!(
        serde_json::to_value(&found).unwrap(),
        json!({
            "code": "test.unknown",
            "severity": "error",
            "message": "it has no `x`; write {it} now",
            "subject": null,
            "location": {
                "graph": "g",
                "pointer": "/nodes/0",
                "span": {"bytes": {"start": 3, "end": 4}, "start": {"line": 0, "column": 0}},
            },
            "arguments": {"what": "it", "name": "x", "other": "it", "hint": "now"},
            "suggestion": null,
        })
    );
}
