//! Checks that the table of limits in the documentation agrees with the code. The test reads source
//! files and links no crate.

use std::fs;

use crate::workspace::{library_file, root};

/// Rows of the table: the reader and its limit, the source file of its crate, and the constant or
/// field.
const ROWS: &[(&str, &str, &str, &str)] = &[
    ("value that crosses a step", "depth", "value/faithful.rs", "DEEPEST"),
    ("schema", "depth", "schema_check/schema_graph.rs", "MOST_DEPTH"),
    (
        "schema",
        "schemas for one value, references unfolded, summed over the schema",
        "schema_check/schema_graph.rs",
        "MOST_UNFOLDED",
    ),
    (
        "schema",
        "schemas for one value, one within another",
        "schema_check/schema_graph.rs",
        "MOST_NESTED",
    ),
    ("schema", "bytes of a pattern", "schema_check/patterns.rs", "MOST_TEXT"),
    ("schema", "bytes of a compiled pattern", "schema_check/patterns.rs", "MOST_PATTERN"),
    ("schema", "bytes of all compiled patterns", "schema_check/patterns.rs", "MOST_PATTERNS"),
    ("check of a value", "steps", "schema_check/check_cost.rs", "MOST_STEPS"),
    ("check of a value", "nested schemas", "schema_check/schema_graph.rs", "MOST_NESTED"),
    ("places that do not fit", "steps", "schema_check/check_cost.rs", "MOST_EXPLAINED"),
    ("places that do not fit", "places", "schema_check.rs", "MOST"),
    (
        "arguments that a tool does not have",
        "names in the error",
        "tool/parameters.rs",
        "MOST_UNKNOWN",
    ),
    ("comparison of two schemas", "steps", "schema/proof.rs", "STEPS"),
    (
        "schema of an OpenAPI document",
        "parts, references written out",
        "api/open_api/schema.rs",
        "MOST_VALUES",
    ),
    ("schema of an OpenAPI document", "depth", "api/open_api/schema.rs", "MOST_DEPTH"),
    ("schema of an MCP server", "bytes", "mcp/mcp_settings.rs", "max_schema"),
    ("schema of an MCP server", "depth", "mcp/mirrored_tool.rs", "DEEPEST"),
    ("question of an MCP server", "bytes of its schema", "mcp/elicited.rs", "MOST_SCHEMA"),
    ("query", "bytes", "json_path.rs", "LONGEST"),
    ("query", "`..` and filters", "json_path.rs", "MOST_WIDE"),
    ("query", "selectors in brackets, multiplied", "json_path.rs", "MOST_COPIES"),
    ("query", "depth of brackets", "json_path.rs", "MOST_DEPTH"),
    ("evaluation", "steps", "json_path.rs", "MOST_STEPS"),
    (
        "evaluation",
        "bytes of the matches in memory, if the data has fewer",
        "json_path.rs",
        "MOST_COPIED",
    ),
    ("YAML and JSON with places", "bytes", "text_tree/mod.rs", "MOST_BYTES"),
    ("YAML and JSON with places", "depth", "text_tree/mod.rs", "MOST_DEPTH"),
    (
        "YAML and JSON with places",
        "values, with those that aliases repeat",
        "text_tree/size.rs",
        "MOST_VALUES",
    ),
    (
        "YAML and JSON with places",
        "bytes of texts, with those that aliases repeat and anchors keep",
        "text_tree/size.rs",
        "MOST_TEXT",
    ),
    ("document of a store", "bytes of the text", "store/document_record.rs", "MAX_TEXT_BYTES"),
    ("document of a store", "bytes of the name", "store/document_record.rs", "MAX_NAME_BYTES"),
    (
        "document of a store",
        "bytes of the author's name, and of the comment",
        "store/document_record.rs",
        "MAX_COMMENT_BYTES",
    ),
    (
        "list of stored documents or versions",
        "entries of a page",
        "runtime/documents/stored_handle.rs",
        "MAX_PAGE",
    ),
    ("description of an HTTP tool", "bytes", "api/api_tool.rs", "MOST_BYTES"),
    ("description of a GraphQL tool", "bytes", "api/graphql_tool.rs", "MOST_BYTES"),
    ("OpenAPI document", "bytes", "api/open_api/mod.rs", "MOST_BYTES"),
    ("OpenAPI document", "operations", "api/open_api/mod.rs", "MOST_OPERATIONS"),
    (
        "variables of a GraphQL document",
        "depth of their types",
        "api/graphql_document.rs",
        "MOST_DEPTH",
    ),
    ("expression (CEL)", "bytes", "expression/tokens.rs", "LONGEST"),
    ("expression (CEL)", "depth", "expression/parse.rs", "DEEPEST"),
    (
        "expression (CEL)",
        "steps of an evaluation, also for the values that it makes",
        "expression/evaluate.rs",
        "STEPS",
    ),
    ("template", "bytes", "template.rs", "LONGEST"),
    ("template", "bytes when it is filled", "template.rs", "LARGEST"),
    (
        "template of a graph",
        "bytes when it is filled",
        "workflow/mapping/mapping_value.rs",
        "LARGEST_TEXT",
    ),
    ("address of an HTTP tool", "bytes", "api/url_template.rs", "LONGEST"),
    ("address of an MCP resource", "bytes", "mcp_server/uri_template.rs", "MOST_URI"),
    ("near name", "bytes of a name", "text.rs", "MOST_NAME"),
    ("near name", "names of a similar length", "text.rs", "MOST_NAMES"),
    ("near name", "pairs of letters", "text.rs", "MOST_COMPARED"),
    ("answer of a model", "bytes", "model/http_settings.rs", "max_answer_bytes"),
    ("refusal of a model's server", "bytes", "http/exchange.rs", "MAX_REFUSAL"),
    ("server-sent event", "bytes, its lines included", "sse.rs", "MAX_EVENT"),
    ("message from an MCP server", "bytes", "mcp/mcp_settings.rs", "max_message"),
    ("message to an MCP server", "bytes", "mcp_server/server_settings.rs", "max_message"),
    (
        "arguments of a call to an MCP server",
        "bytes",
        "mcp_server/server_settings.rs",
        "max_arguments",
    ),
    ("message from an A2A agent", "bytes", "a2a/client/peer.rs", "max_message"),
    ("request to an A2A server", "bytes", "a2a_server/served_settings.rs", "max_body"),
    ("answer to `http_request`", "bytes", "http/http_request.rs", "DEFAULT_MAX_BYTES"),
    ("answers to an HTTP tool", "bytes of all pages", "api/api_access.rs", "DEFAULT_MAX_BYTES"),
    ("output of a tool", "bytes", "tool_definition.rs", "MAX_OUTPUT"),
    ("record of a run", "open questions", "store/recorded_questions.rs", "MAX_QUESTIONS"),
    ("record of a run", "bytes of a question", "store/recorded_questions.rs", "MAX_QUESTION_BYTES"),
    ("record of a run", "bytes of all questions", "store/recorded_questions.rs", "MAX_BYTES"),
];

/// Rows whose limit has no constant in this project.
const FOREIGN: &[(&str, &str)] = &[("JSON", "depth")];

/// Returns the value of a constant, or the default of a field.
fn value_of(text: &str, name: &str) -> Option<u64> {
    let written = text.lines().map(str::trim).find_map(|line| {
        let constant = line
            .split_once(&format!("const {name}: "))
            .and_then(|(_, rest)| rest.split_once(" = "));
        match constant {
            Some((_, value)) => value.strip_suffix(';'),
            None => line.strip_prefix(&format!("{name}: "))?.strip_suffix(','),
        }
    })?;
    let number = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    match written.split_once("<<") {
        Some((value, shift)) => Some(number(value)? << number(shift)?),
        None => written.split('*').try_fold(1, |product, factor| Some(product * number(factor)?)),
    }
}

#[test]
fn the_table_of_limits_has_the_numbers_of_the_code() {
    let source = root().join("agentflow/src");
    let page = fs::read_to_string(source.join("docs/limits.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| {
            line.starts_with("| ") && !line.starts_with("| reader") && !line.starts_with("| ---")
        })
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    for (reader, limit, file, name) in ROWS {
        let text = fs::read_to_string(library_file(file)).unwrap();
        let value =
            value_of(&text, name).unwrap_or_else(|| panic!("{file} has no number `{name}`"));
        let row = rows.iter().find(|row| row[0] == *reader && row[1] == *limit);
        let row = row.unwrap_or_else(|| panic!("docs/limits.md has no row `{reader}`, `{limit}`"));
        assert_eq!(
            row[2],
            value.to_string(),
            "docs/limits.md: `{reader}`, `{limit}` is `{name}` of {file}"
        );
    }
    for row in &rows {
        let is_known = ROWS.iter().any(|(reader, limit, ..)| row[0] == *reader && row[1] == *limit)
            || FOREIGN.contains(&(row[0], row[1]));
        assert!(
            is_known,
            "no constant is known for the row `{}`, `{}` of docs/limits.md",
            row[0], row[1]
        );
        assert_eq!(row.len(), 5, "{row:?}");
    }
}
