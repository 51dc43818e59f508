//! Tests of paths: text form, order and nesting.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::StepPath;

#[test]
fn text_form_and_back() {
    let root = StepPath::root();
    let node: StepPath = "notes/plan".parse().unwrap();
    for (path, text, parent) in [
        (root.clone(), "", None),
        (root.model(2), "model#2", Some("")),
        (root.tool(1, "search", 0), "tool#1.search", Some("")),
        (node.tool(3, "search", 2), "notes/plan/tool#3.search[2]", Some("notes/plan")),
        (node.clone(), "notes/plan", Some("notes")),
    ] {
        assert_eq!(path.to_string(), text);
        assert_eq!(text.parse::<StepPath>().unwrap(), path);
        assert_eq!(path.parent().map(|parent| parent.to_string()).as_deref(), parent);
    }
}

#[test]
fn a_tool_of_an_odd_name_is_still_one_step() {
    for name in ["a/b.c", "a[1]", "tool#1.a", "x/model#2", "", "50%", "%2F", "a/b]"] {
        let path = StepPath::root().tool(1, name, 0);
        assert_eq!(path.to_string().parse::<StepPath>().unwrap(), path);
        let below = path.model(1);
        assert_eq!(below.to_string().parse::<StepPath>().unwrap(), below);
        assert_eq!(below.parent(), Some(path));
    }
}

#[test]
fn what_is_within_what() {
    let path = |text: &str| text.parse::<StepPath>().unwrap();
    for (inner, outer) in [
        ("a", ""),
        ("a", "a"),
        ("a/b", "a"),
        ("a/model#1", "a"),
        ("a/tool#1.x/b", "a/tool#1.x"),
        // Calls of an agent that is a tool of another agent.
        ("tool#1.x/model#1", "tool#1.x"),
        ("tool#1.x/tool#1.y", "tool#1.x"),
        ("a/tool#1.x/tool#2.y[1]", "a/tool#1.x"),
        ("tool#1.x/tool#1.y/tool#1.z", "tool#1.x/tool#1.y"),
        ("tool#1.x/tool#1.y/tool#1.z", "tool#1.x"),
    ] {
        assert!(path(inner).is_within(&path(outer)), "{inner} in {outer}");
    }
    for (inner, outer) in [
        ("", "a"),
        ("ab", "a"),
        ("a[1]", "a"),
        ("b/a", "a"),
        ("model#1", "a"),
        ("tool#1.xy/model#1", "tool#1.x"),
        ("tool#1.x[1]/model#1", "tool#1.x"),
        ("tool#1.x", "tool#1.x/tool#1.y"),
        ("tool#2.x", "tool#1.x"),
    ] {
        assert!(!path(inner).is_within(&path(outer)), "{inner} in {outer}");
    }
    assert_eq!(path("a").child("b"), path("a/b"));
    assert_eq!(StepPath::root().child("b"), path("b"));
}

#[test]
fn what_is_no_path() {
    for text in
        ["model#x", "tool#1", "tool#.a", "a/tool#x.b", "model#02", "tool#1.a[0]", "tool#1.a%2f"]
    {
        assert!(text.parse::<StepPath>().is_err(), "{text}");
    }
}

#[test]
fn items_and_their_nodes() {
    let path = |text: &str| text.parse::<StepPath>().unwrap();
    assert_eq!(path("r/a[12]").item(), Some((path("r/a"), 12)));
    assert_eq!(path("r/a").with_item(12), path("r/a[12]"));
    for none in ["", "a", "a[x]", "a[01]", "a[1]/b", "tool#1.a[1]", "a/model#1"] {
        assert_eq!(path(none).item(), None, "{none}");
    }
    assert_eq!(path("a/b[1]/model#2").depth(), 4);
    let parents: Vec<_> = path("a/tool#1.x/b[1]").parents().map(|path| path.to_string()).collect();
    assert_eq!(parents, ["a/tool#1.x", "a", ""]);
    assert!(path("a/b/c").ends_below(&path("b/c")) && !path("b/c").ends_below(&path("b/c")));
    assert!(!path("a/xb").ends_below(&path("b")));
    for belongs in ["a/b", "a/b[3]", "a/b[3]/c", "a/b/c/model#1"] {
        assert!(path(belongs).belongs_to(&path("a/b")), "{belongs}");
    }
    for not in ["a", "a/bc", "a[1]/b", "b", "a/c/b"] {
        assert!(!path(not).belongs_to(&path("a/b")), "{not}");
    }
    assert!(!path("a[1]").belongs_to(&path("a[2]")) && path("a[1]/x").belongs_to(&path("a[1]")));
}

/// Builds paths of up to three steps, from similar and unusual names.
fn paths() -> impl Strategy<Value = StepPath> {
    let names = prop::sample::select(vec![
        "a",
        "ab",
        "a-b",
        "a[1]",
        "a[10]",
        "a[2]",
        "a[01]",
        "b",
        "model#1",
        "model#x",
        "tool#1",
        "tool#01.a",
        "%2F",
        "a/b",
        "]",
        "",
        "x/model#",
        "[0]",
        "tool#1.a[0]",
    ]);
    let step = (0..3_u8, names, 0..3_u32, 0..3_u32);
    prop::collection::vec(step, 0..4).prop_map(|steps| {
        steps.into_iter().fold(StepPath::root(), |path, (what, name, turn, repeat)| match what {
            0 => path.child(name),
            1 => path.model(turn),
            _ => path.tool(turn, name, repeat),
        })
    })
}

proptest! {
    #[test]
    fn a_path_is_what_its_text_says(path in paths()) {
        let text = path.to_string();
        prop_assert_eq!(&text.parse::<StepPath>().unwrap(), &path);
        let written: Vec<String> = path.segments().map(|segment| segment.to_string()).collect();
        prop_assert_eq!(written.join("/"), text);
    }

    #[test]
    fn below_is_a_partial_order(a in paths(), b in paths(), c in paths()) {
        prop_assert!(a.is_within(&a) && a.is_within(&StepPath::root()));
        prop_assert!(!(a.is_within(&b) && b.is_within(&a)) || a == b);
        prop_assert!(!(a.is_within(&b) && b.is_within(&c)) || a.is_within(&c));
        prop_assert!(!a.is_within(&b) || a.belongs_to(&b));
        prop_assert_eq!(a.is_within(&b), a == b || a.parents().any(|above| above == b));
    }

    #[test]
    fn what_is_below_a_path_follows_it(all in prop::collection::vec(paths(), 0..40), base in paths()) {
        for (a, b) in all.iter().zip(all.iter().skip(1)) {
            prop_assert_eq!(a == b, a.cmp(b).is_eq());
            prop_assert_eq!(a.cmp(b), a.segments().cmp(b.segments()));
        }
        let all: BTreeSet<StepPath> = all.into_iter().collect();
        let below = |path: &&StepPath| path.is_within(&base);
        let scanned: Vec<_> = all.range(&base..).take_while(below).collect();
        prop_assert_eq!(scanned, all.iter().filter(below).collect::<Vec<_>>());
        let with_items = |path: &&StepPath| path.belongs_to(&base);
        let scanned: Vec<_> = all.range(&base..).take_while(with_items).collect();
        prop_assert_eq!(scanned, all.iter().filter(with_items).collect::<Vec<_>>());
    }
}
