//! Checks the description of a tool, and builds the request of a call from its arguments. Sends
//! nothing.

use std::collections::{BTreeMap, BTreeSet};

use agentflow_schema::schema::Definitions;
use agentflow_schema::schema_check::SchemaCheck;
use agentflow_schema::text::{did_you_mean, nearest};
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::api_description::{ApiAuth, ApiDescription, ApiParameter, ParameterPlace};
use super::api_exchange::ApiRequest;
use super::body_encoding::EncodedBody;
use super::url_template::{UrlTemplate, plain_text};
use crate::http::http_exchange::is_own_header;
use crate::json_path::BoundedPath;
use agentflow_core::__private::extension::is_dotted;
use agentflow_core::tool::{ToolDefinition, ToolError};

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// A description that was checked.
#[derive(Clone, Debug)]
pub(crate) struct CheckedApi {
    pub(crate) described: ApiDescription,
    pub(crate) method: Method,
    pub(crate) template: UrlTemplate,
    pub(crate) answer: Option<BoundedPath>,
    /// JSONPath of the next page in an answer.
    pub(crate) next: Option<BoundedPath>,
}

impl CheckedApi {
    /// Checks a description.
    ///
    /// # Errors
    /// A message for each mistake.
    pub(crate) fn new(described: ApiDescription) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        check_name(&described.name, &described.description, &mut problems);
        let method = described.method.to_ascii_uppercase();
        if !METHODS.contains(&&*method) {
            let near = did_you_mean(nearest(&method, METHODS));
            let all = METHODS.join(", ");
            problems.push(format!(
                "the method `{}` is not used{near}; there are {all}",
                described.method
            ));
        }
        // Continue after a mistake, so that all mistakes are reported at once.
        let template =
            UrlTemplate::parse(&described.url).map_err(|problem| problems.push(problem)).ok();
        for (argument, parameter) in &described.parameters {
            check_parameter(argument, parameter, &mut problems);
        }
        places(&described, template.as_ref(), &method, &mut problems);
        // A header may be set by an argument, a fixed value, the key or the idempotency key, but
        // only once.
        let in_headers =
            described.parameters.iter().filter(|(_, one)| one.place == ParameterPlace::Header);
        let more = in_headers
            .map(|(name, one)| one.sent(name))
            .chain(described.idempotency_key.as_deref());
        check_headers(
            &described.headers,
            &more.collect::<Vec<_>>(),
            described.auth.as_ref(),
            &mut problems,
        );
        let mut query = |of: &str, path: Option<&str>| {
            path.and_then(|path| {
                BoundedPath::parse(path)
                    .map_err(|problem| problems.push(format!("`{of}`: {problem}")))
                    .ok()
            })
        };
        let answer = query("answer", described.answer.as_deref());
        let next = query("paging.at", described.paging.as_ref().and_then(|paging| paging.at()));
        if described.paging.is_some() && method != "GET" {
            problems.push(format!(
                "pages are asked for with GET, and the method is `{method}`; leave out `paging`"
            ));
        }
        if described.max_pages == 0 {
            problems.push("`max_pages` is at least 1".to_owned());
        }
        let method = Method::from_bytes(method.as_bytes()).ok();
        match (problems.is_empty(), method, template) {
            (true, Some(method), Some(template)) => {
                Ok(Self { described, method, template, answer, next })
            }
            _ => Err(problems),
        }
    }

    /// Returns `true` if the method only reads.
    pub(crate) fn reads(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }

    /// Returns the JSON Schema of the tool's arguments.
    pub(crate) fn schema(&self) -> Value {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        let mut definitions = Definitions::default();
        for (argument, parameter) in &self.described.parameters {
            let mut schema = definitions.embed(&parameter.schema);
            if let (Some(about), Value::Object(fields)) = (&parameter.description, &mut schema) {
                fields.insert("description".to_owned(), about.clone().into());
            }
            properties.insert(argument.clone(), schema);
            if parameter.required {
                required.push(argument.clone());
            }
        }
        let mut whole = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        definitions.add_to(&mut whole);
        whole
    }

    /// Builds the request of a call. `step_key` is the idempotency key of the step.
    pub(crate) fn request(
        &self,
        arguments: &Value,
        step_key: &str,
    ) -> Result<ApiRequest, ToolError> {
        let given: Vec<(&str, &ApiParameter, &Value)> = self
            .described
            .parameters
            .iter()
            .filter_map(|(name, parameter)| {
                Some((parameter.sent(name), parameter, arguments.get(name)?))
            })
            // An omitted argument and `null` are the same, except for a field of the JSON body.
            .filter(|(_, parameter, value)| {
                !value.is_null() || parameter.place == ParameterPlace::Field
            })
            .collect();
        let of = |place: ParameterPlace| {
            given.iter().filter(move |(_, parameter, _)| parameter.place == place)
        };
        let wrong = |name: &str, problem: &str| {
            Err(ToolError::invalid_arguments(format!("`{name}`: {problem}")))
        };
        let in_path = |name: &str| of(ParameterPlace::Path).find(|(sent, ..)| *sent == name);
        let mut url = self
            .template
            .filled(|name| in_path(name).and_then(|(_, _, value)| plain_text(value)))
            .map_err(ToolError::invalid_arguments)?;
        for (name, _, value) in of(ParameterPlace::Query) {
            let values = match value {
                Value::Array(values) => values.iter().map(plain_text).collect(),
                value => plain_text(value).map(|value| vec![value]),
            };
            let Some(values) = values else {
                return wrong(name, "a query has texts, numbers, `true` and `false` alone");
            };
            values.iter().for_each(|value| {
                url.query_pairs_mut().append_pair(name, value);
            });
        }
        let mut headers = HeaderMap::new();
        // These headers are set by the description, so an invalid one is not a mistake of the
        // caller.
        let fixed =
            self.described.headers.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let step_key =
            self.described.idempotency_key.iter().map(|name| (name.as_str(), step_key.to_owned()));
        for (name, value) in fixed.chain(step_key) {
            set(&mut headers, name, &value).map_err(ToolError::new)?;
        }
        for (name, _, value) in of(ParameterPlace::Header) {
            let Some(value) = plain_text(value) else { return wrong(name, "a header is a text") };
            set(&mut headers, name, &value).map_err(ToolError::invalid_arguments)?;
        }
        let (mut fields, mut of_fields) = (Map::new(), Map::new());
        for (name, parameter, value) in of(ParameterPlace::Field) {
            fields.insert((*name).to_owned(), (*value).clone());
            of_fields.insert((*name).to_owned(), parameter.schema.clone());
        }
        // A body with only optional fields is sent as `{}` and not omitted.
        let has_fields =
            self.described.parameters.values().any(|one| one.place == ParameterPlace::Field);
        let (fields, of_fields) = (Value::Object(fields), json!({ "properties": of_fields }));
        let whole = match of(ParameterPlace::Body).next() {
            Some((_, parameter, value)) => Some((*value, &parameter.schema)),
            None => has_fields.then_some((&fields, &of_fields)),
        };
        let mut body = None;
        if let Some((value, schema)) = whole {
            let encoded = EncodedBody::new(value, schema, headers.get(CONTENT_TYPE))?;
            headers.insert(CONTENT_TYPE, encoded.content_type);
            body = Some(encoded.text);
        }
        // With an idempotency key, the service ignores the repeated request.
        let repeatable =
            self.reads() || self.described.idempotent || self.described.idempotency_key.is_some();
        Ok(ApiRequest {
            method: self.method.clone(),
            url,
            headers,
            body,
            repeatable,
            ignores_body: false,
        })
    }
}

fn set(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), String> {
    let named: HeaderName =
        name.parse().map_err(|_| format!("`{name}` is not the name of a header"))?;
    let value = HeaderValue::from_str(value)
        .map_err(|_| format!("the value of the header `{name}` cannot be sent"))?;
    headers.insert(named, value);
    Ok(())
}

/// Checks the tool's name and its description for the model.
pub(crate) fn check_name(name: &str, description: &str, problems: &mut Vec<String>) {
    let definition = ToolDefinition::new(name, description, Value::Null);
    if !definition.has_valid_name() && !is_dotted(name) {
        problems
            .push(format!("the name `{name}` cannot be that of a tool; it has 1 to 64 letters, digits, `_` and `-`"));
    }
    if description.trim().is_empty() {
        problems.push("`description` is empty; say for the model what the tool does".to_owned());
    }
}

fn check_parameter(argument: &str, parameter: &ApiParameter, problems: &mut Vec<String>) {
    if let Err(problem) = SchemaCheck::tolerant(&parameter.schema) {
        problems.push(format!("the schema of `{argument}`: {problem}"));
    }
    let place = parameter.place;
    let of_type = parameter.schema["type"].as_str().unwrap_or_default();
    // A list has no standard form in a path or a header.
    let is_text =
        matches!(place, ParameterPlace::Path | ParameterPlace::Header) && of_type == "array";
    if is_text
        || (matches!(place, ParameterPlace::Path | ParameterPlace::Query | ParameterPlace::Header)
            && of_type == "object")
    {
        let word = place.word();
        problems
            .push(format!("`{argument}` is of the type `{of_type}`, which cannot stand in a {word}; use `in: field`"));
    }
    if place == ParameterPlace::Path && !parameter.required {
        problems.push(format!(
            "`{argument}` stands in the path, so it has to be given; leave out `required: false`"
        ));
    }
}

/// Checks that the arguments' places in the request are complete and do not conflict.
fn places(
    described: &ApiDescription,
    template: Option<&UrlTemplate>,
    method: &str,
    problems: &mut Vec<String>,
) {
    let of = |place: ParameterPlace| {
        described
            .parameters
            .iter()
            .filter(move |(_, one)| one.place == place)
            .map(|(name, one)| (name, one.sent(name)))
    };
    let in_path: Vec<&str> = of(ParameterPlace::Path).map(|(_, sent)| sent).collect();
    if let Some(template) = template {
        let names = template.names();
        for name in names.iter().filter(|name| !in_path.contains(&name.as_str())) {
            let near = did_you_mean(nearest(name, in_path.iter().copied()));
            problems.push(format!(
                "the url has `{{{name}}}`, and there is no parameter of it with `in: path`{near}"
            ));
        }
        for name in in_path.iter().filter(|name| !names.iter().any(|one| one == *name)) {
            let near =
                nearest(name, names.iter().map(String::as_str)).map(|near| format!("{{{near}}}"));
            problems.push(format!(
                "`{name}` stands in no place of the url; write `{{{name}}}` there{}",
                did_you_mean(near)
            ));
        }
    }
    let mut seen = BTreeSet::new();
    for (argument, parameter) in &described.parameters {
        let (sent, place) = (parameter.sent(argument), parameter.place.word());
        // Header names are case-insensitive.
        let key = if parameter.place == ParameterPlace::Header {
            sent.to_ascii_lowercase()
        } else {
            sent.to_owned()
        };
        if !seen.insert((place, key)) {
            problems
                .push(format!("two parameters are sent as `{sent}` in the {place}; leave one out"));
        }
    }
    let queries: Vec<&str> = of(ParameterPlace::Query).map(|(_, sent)| sent).collect();
    if let Some(parameter) = described.paging.as_ref().and_then(|paging| paging.parameter())
        && queries.contains(&parameter)
    {
        problems.push(format!("`{parameter}` is set by `paging`; leave out the parameter"));
    }
    let bodies = of(ParameterPlace::Body).count();
    let has_fields = of(ParameterPlace::Field).next().is_some();
    if bodies > 1 || (bodies == 1 && has_fields) {
        problems
            .push("a request has one body: either one parameter with `in: body`, or those with `in: field`".to_owned());
    }
    if (bodies > 0 || has_fields) && matches!(method, "GET" | "HEAD") {
        problems.push(format!("a {method} has no body; use `in: query`, or another method"));
    }
}

/// Checks that the headers are valid and that each is set only once. `more` contains the headers
/// that arguments and the idempotency key set.
pub(crate) fn check_headers(
    fixed: &BTreeMap<String, String>,
    more: &[&str],
    auth: Option<&ApiAuth>,
    problems: &mut Vec<String>,
) {
    let all = more
        .iter()
        .copied()
        .chain(fixed.keys().map(String::as_str))
        .chain(auth.and_then(ApiAuth::header));
    let mut seen = BTreeSet::new();
    for name in all {
        match name.parse::<HeaderName>() {
            Err(_) => problems.push(format!("`{name}` is not the name of a header")),
            Ok(named) if is_own_header(&named) => {
                problems.push(format!("the header `{name}` is not set by a tool; leave it out"));
            }
            Ok(named) if !seen.insert(named.as_str().to_owned()) => {
                problems.push(format!("the header `{name}` is set twice; leave one out"));
            }
            Ok(_) => {}
        }
    }
    for (name, _) in fixed.iter().filter(|(_, value)| HeaderValue::from_str(value).is_err()) {
        problems.push(format!("the value of the header `{name}` cannot be sent"));
    }
    if auth.is_some_and(|auth| auth.secret().is_empty()) {
        problems.push(
            "`secret` of `auth` is empty; give the name of a key, such as `TRACKER_KEY`".to_owned(),
        );
    }
}
