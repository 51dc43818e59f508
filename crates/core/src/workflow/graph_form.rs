//! Reads a [`Graph`] from its stored form, for example JSON. Errors name the position in the
//! document. The meaning of the graph is checked elsewhere.

use std::collections::BTreeMap;

use agentflow_schema::text::{did_you_mean, nearest};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::decider::Decider;
use super::graph::{Graph, GraphNode};
use super::policy::StopPolicy;
use super::run_limits::RunLimits;

/// Serde form of a [`Graph`].
#[derive(Deserialize)]
#[serde(
    remote = "Graph",
    deny_unknown_fields,
    expecting = "a graph: an object with a list of `nodes`"
)]
struct GraphForm {
    version: u32,
    name: String,
    #[serde(default)]
    description: String,
    output: String,
    concurrency: usize,
    #[serde(default)]
    stop_policy: StopPolicy,
    #[serde(default)]
    decider: Option<Decider>,
    #[serde(default)]
    limits: RunLimits,
    nodes: Vec<GraphNode>,
}

/// A graph whose errors have no position yet. The outermost [`Graph`] adds it, so that it is
/// relative to the whole document.
struct Whole(Graph);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        GraphForm::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for Graph {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = serde_path_to_error::deserialize::<_, Whole>(deserializer);
        read.map(|whole| whole.0).map_err(|error| {
            let problem = in_words(&error.inner().to_string());
            match error.path().to_string().as_str() {
                "." => D::Error::custom(problem),
                path => D::Error::custom(format!("`{path}`: {problem}")),
            }
        })
    }
}

/// Terms of serde, and the terms of JSON that replace them.
const WORDS: [(&str, &str); 7] = [
    ("invalid type: map,", "invalid type: an object,"),
    ("invalid value: map,", "invalid value: an object,"),
    ("invalid type: sequence,", "invalid type: a list,"),
    ("expected a sequence", "expected a list"),
    ("expected map with a single key", "expected an object with one key"),
    ("expected string or map", "expected a text, or an object with one key"),
    ("expected tuple variant", "expected a list of two mappings"),
];

/// Reads the graph within a node.
pub(super) fn body<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<Graph>>, D::Error> {
    Ok(Option::<Whole>::deserialize(deserializer)?.map(|whole| Box::new(whole.0)))
}

/// Reads the graphs within a node, by branch name.
pub(super) fn bodies<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Graph>, D::Error> {
    let all = BTreeMap::<String, Whole>::deserialize(deserializer)?;
    Ok(all.into_iter().map(|(name, whole)| (name, whole.0)).collect())
}

/// Rewrites an error of serde in the terms of JSON. If a name is unknown, suggests the nearest
/// known name.
fn in_words(problem: &str) -> String {
    // A reader of text appends the position to the sentence.
    let (problem, place) = problem.split_at(problem.rfind(" at line ").unwrap_or(problem.len()));
    let is_name =
        ["unknown field ", "unknown variant "].iter().any(|begin| problem.starts_with(begin));
    let mut names = problem.split('`').skip(1).step_by(2);
    let near = match names.next() {
        Some(given) if is_name => {
            let is_condition = problem.contains(" expected one of `cel`, ");
            match nearest(given, names) {
                None if is_condition && given.contains(' ') => {
                    "; a line of CEL is written as `{\"cel\": \"order.total > 100\"}`".to_owned()
                }
                near => did_you_mean(near),
            }
        }
        _ => String::new(),
    };
    let problem =
        WORDS.iter().fold(problem.to_owned(), |problem, (from, to)| problem.replacen(from, to, 1));
    format!("{problem}{near}{place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(node: &str) -> String {
        let graph = format!(
            r#"{{"version":1,"name":"g","output":"o","concurrency":1,"nodes":[{{"name":"o"}},{node}]}}"#
        );
        serde_json::from_str::<Graph>(&graph).unwrap_err().to_string()
    }

    #[test]
    fn the_place_of_a_mistake_is_named() {
        for (node, says) in [
            (r#"{"does":{"value":{"value":1}}}"#, "`nodes[1]`: missing field `name` at line 1"),
            (
                r#"{"name":3}"#,
                "`nodes[1].name`: invalid type: integer `3`, expected a string at line 1",
            ),
            (r#"{"nam":"a"}"#, "`nodes[1].nam`: unknown field `nam`, expected one of `name`, "),
            (r#"{"nam":"a"}"#, "; did you mean `name`? at line 1"),
            (
                r#"{"name":"a","does":{"valu":{"value":1}}}"#,
                "`nodes[1].does`: unknown variant `valu`, expected one of ",
            ),
            (r#"{"name":"a","does":{"valu":{"value":1}}}"#, "; did you mean `value`? at line 1"),
            (
                r#"{"name":"a","does":{"call":{"kind":"tool","name":"t","with":{"object":{"s":"ada"}}}}}"#,
                "`nodes[1].does.call.with.object.s`: invalid type: string \"ada\", expected a mapping, such as \
                 {\"from\": \"page\"} or {\"value\": 5}",
            ),
            (
                r#"{"name":"a","does":{"value":{"list":[{"value":1},{"form":"o"}]}}}"#,
                "`nodes[1].does.value.list[1]| a mapping has no `form`; did you mean `from`?",
            ),
            (
                r#"{"name":"a","does":{"map":{"items":"o","call":{"kind":"tool","name":"t"},"most":1}}}"#,
                "`nodes[1].does.map| missing field `with`",
            ),
            (
                r#"{"name":"a","does":{"map":{"items":"o","call":{"kind":"tool","name":"t","with":{"object":{}}},"most":1}}}"#,
                "`nodes[1].does.map| unknown field `most`, expected `items` or `call`",
            ),
            (
                r#"{"name":"a","edges":["p"]}"#,
                "`nodes[1].edges[0]`: invalid type: string \"p\", expected an edge, such as {\"from\": \"page\"}",
            ),
            (
                r#"{"name":"a","policy":{"retry":3}}"#,
                "`nodes[1].policy.retry`: invalid type: integer `3`, expected a policy of retries, such as {\"max_attempts\": 3}",
            ),
            (r#"{"name":"a","begins":"all_of"}"#, "`nodes[1].begins"),
            (
                r#"{"name":"a","edges":[{"from":"o","when":{"equal":[]}}]}"#,
                "`nodes[1].edges[0].when`: unknown variant `equal`, expected one of `cel`, `is`, `equals`, `exists`, `not`, \
                 `all`, `any`; did you mean `equals`?",
            ),
            (
                r#"{"name":"a","edges":[{"from":"o","when":{"all":[{"equals":[{"from":"o"},{"at":"x"}]}]}}]}"#,
                "`nodes[1].edges[0].when.all[0].equals[1]| `x` is not a JSON Pointer; it begins with `/`, as in `/x`",
            ),
        ] {
            let problem = problem(node);
            assert!(
                says.split('|').all(|says| problem.contains(says)),
                "{node}\n{problem}\n{says}"
            );
        }
    }
}
