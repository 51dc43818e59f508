//! Tests of the transforms of state, also against a naive model.

use proptest::prelude::*;
use serde_json::json;

use super::*;

type Values = BTreeMap<String, Value>;

fn after(transforms: &[StateTransform], state: &Values) -> Result<Values, String> {
    let mut seen = SavedByStep::default();
    state.iter().for_each(|(key, value)| seen.change(key, Some(Encoded::new(value).unwrap())));
    let mut state = state.clone();
    for (key, value) in
        StateTransform::changes(transforms, seen).map_err(|(_, problem)| problem.message())?
    {
        match value {
            Some(value) => drop(state.insert(key, value.decode().unwrap())),
            None => drop(state.remove(&key)),
        }
    }
    Ok(state)
}

/// Applies a transform to a map, independent of the code above.
fn naive(transform: &StateTransform, state: &Values) -> Values {
    let mut next = state.clone();
    match transform {
        StateTransform::Pick(keys) => {
            next.retain(|key, _| key.contains(':') || keys.contains(key));
        }
        StateTransform::Drop(keys) => next.retain(|key, _| !keys.contains(key)),
        StateTransform::Merge(merge) => {
            let texts: Vec<&str> = merge
                .sources
                .iter()
                .filter_map(|key| state.get(key))
                .map(|text| text.as_str().unwrap())
                .collect();
            if !texts.is_empty() {
                next.insert(merge.into.clone(), texts.join(&merge.separator).into());
            }
        }
        StateTransform::Rename(keys) => {
            keys.keys().for_each(|from| drop(next.remove(from)));
            for (from, to) in keys {
                if let Some(value) = state.get(from) {
                    next.insert(to.clone(), value.clone());
                }
            }
        }
        StateTransform::Default(values) => {
            for (key, value) in values {
                next.entry(key.clone()).or_insert(value.clone());
            }
        }
        StateTransform::Map(texts) => {
            for (key, text) in texts {
                // All strings have the form `<{k?}>`.
                let of = text.as_str().trim_start_matches("<{").trim_end_matches("?}>");
                let value = state.get(of).map_or("", |value| value.as_str().unwrap());
                next.insert(key.clone(), format!("<{value}>").into());
            }
        }
    }
    next
}

fn key() -> impl Strategy<Value = String> {
    proptest::sample::select(&["a", "b", "c", "d", "user:a", "app:b", "temp:c"][..])
        .prop_map(str::to_owned)
}

fn session_key() -> impl Strategy<Value = String> {
    proptest::sample::select(&["a", "b", "c", "d"][..]).prop_map(str::to_owned)
}

fn text() -> impl Strategy<Value = Value> {
    "[a-c{}]{0,3}".prop_map(Value::from)
}

fn transform() -> impl Strategy<Value = StateTransform> {
    let some = || proptest::collection::btree_set(key(), 0..4);
    prop_oneof![
        proptest::collection::btree_set(session_key(), 0..4).prop_map(StateTransform::Pick),
        some().prop_map(StateTransform::Drop),
        (
            proptest::collection::vec(key(), 1..4),
            key(),
            proptest::sample::select(&["\n", ", "][..])
        )
            .prop_map(|(sources, into, separator)| StateTransform::merge_with(
                sources, into, separator
            )),
        (some(), some()).prop_map(|(from, to)| StateTransform::rename(from.into_iter().zip(to))),
        proptest::collection::btree_map(key(), text(), 0..3).prop_map(StateTransform::Default),
        proptest::collection::btree_map(key(), key(), 0..3).prop_map(|texts| {
            let text = |(key, of): (String, String)| (key, format!("<{{{of}?}}>").parse().unwrap());
            StateTransform::Map(texts.into_iter().map(text).collect())
        }),
    ]
}

proptest! {
    /// Compares the result with a naive implementation. Also checks that serialization
    /// preserves the transforms.
    #[test]
    fn they_change_what_a_naive_reader_expects(
        state in proptest::collection::btree_map(key(), text(), 0..6),
        transforms in proptest::collection::vec(transform(), 0..5),
    ) {
        let expected = transforms.iter().fold(state.clone(), |state, transform| naive(transform, &state));
        prop_assert_eq!(&after(&transforms, &state).unwrap(), &expected);
        let written = serde_json::to_string(&transforms).unwrap();
        let read: Vec<StateTransform> = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(&read, &transforms);
        // Only affected keys may change.
        for transform in &transforms {
            let next = after(std::slice::from_ref(transform), &state).unwrap();
            let of = |key: &String| (state.get(key), next.get(key));
            let changed = state.keys().chain(next.keys()).filter(|key| of(key).0 != of(key).1);
            if let Some(affected) = transform.affected_keys() {
                let changed: Vec<&String> = changed.filter(|key| !affected.contains(key.as_str())).collect();
                prop_assert!(changed.is_empty(), "{transform:?} changed {changed:?}");
            }
        }
    }
}

#[test]
fn values_of_several_kinds_are_merged_by_their_kind() {
    let merged = |a: Value, b: Value| {
        let state = Values::from([("a".to_owned(), a), ("b".to_owned(), b)]);
        after(&[StateTransform::merge(["a", "missing", "b"], "c")], &state)
            .map(|state| state["c"].clone())
    };
    assert_eq!(merged(json!("x"), json!("y")), Ok(json!("x\ny")));
    assert_eq!(merged(json!([1]), json!([2, 3])), Ok(json!([1, 2, 3])));
    assert_eq!(merged(json!({"x": 1, "y": 1}), json!({"y": 2})), Ok(json!({"x": 1, "y": 2})));
    let error = merged(json!("x"), json!(null)).unwrap_err();
    assert_eq!(
        error,
        "`a`, `missing`, `b` are not merged: `a` is a text, `b` is null; all of them must be texts, lists or objects"
    );
    let alone =
        after(&[StateTransform::merge(["a"], "c")], &Values::from([("a".to_owned(), json!(7))]))
            .unwrap();
    assert_eq!(alone["c"], 7);
}

#[test]
fn a_text_keeps_the_type_of_one_placeholder_and_leaves_out_what_is_missing() {
    let state = Values::from([("order".to_owned(), json!({"items": ["lamp"], "city": "Rome"}))]);
    let map = |text: &str| {
        after(&[StateTransform::map("to", text).unwrap()], &state)
            .map(|state| state.get("to").cloned())
    };
    assert_eq!(map("{order.items}"), Ok(Some(json!(["lamp"]))));
    assert_eq!(map("{state.order.city}!"), Ok(Some(json!("Rome!"))));
    assert_eq!(map("{nothing?}"), Ok(None));
    assert_eq!(map("<{nothing?}>"), Ok(Some(json!("<>"))));
    assert!(
        map("{nothing}")
            .unwrap_err()
            .contains("the state has no `nothing`; write `{nothing?}` where")
    );
    assert!(
        map("{order.town}").unwrap_err().contains("the value of `order` has nothing at `town`")
    );
    assert!(map(&"{order}".repeat(60_000)).unwrap_err().contains("more than 1048576 bytes"));
}

#[test]
fn what_cannot_be_is_refused() {
    let problem = |json: Value| {
        let read: StateTransform = serde_json::from_value(json).unwrap();
        after(&[read], &Values::new()).unwrap_err()
    };
    assert!(
        problem(json!({"pick": ["user:name"]}))
            .contains("`user:name` is kept in any case; remove it")
    );
    assert!(
        problem(json!({"drop": ["how many"]}))
            .contains("`how many` is not the name of a state key")
    );
    assert!(
        problem(json!({"merge": {"sources": [], "into": "a"}}))
            .contains("nothing is merged into `a`")
    );
    assert!(
        problem(json!({"rename": {"a": "c", "b": "c"}})).contains("two keys are renamed to `c`")
    );
}
