//! All tools of one text that the program did not write: a description of a REST or a GraphQL tool, or an OpenAPI document. It calls
//! nothing.

use std::collections::BTreeMap;

use super::api_access::ApiAccess;
use super::api_error::ApiToolError;
use super::api_tool::ApiTool;
use super::description_form::value_of;
use super::graphql_tool::GraphqlTool;
use super::open_api::OpenApi;
use crate::tool::FnTool;

/// Maximum size of a text, in bytes; the limit of an OpenAPI document.
pub(crate) const MOST_BYTES: usize = 4 << 20;

/// Returns the tools of a text and its mistakes. `keys` has names of keys by the names of OpenAPI security schemes.
/// An operation of an OpenAPI document that cannot be a tool leaves the others.
pub(crate) fn described_tools(
    text: &str,
    access: &ApiAccess,
    keys: &BTreeMap<String, String>,
) -> (Vec<FnTool>, Vec<ApiToolError>) {
    let (mut tools, mut errors) = (Vec::new(), Vec::new());
    let has = |name: &str| value_of(text, MOST_BYTES).is_ok_and(|value| value.get(name).is_some());
    if has("openapi") || has("swagger") {
        let api = match OpenApi::read(text) {
            Ok(api) => api.access(access.clone()),
            Err(error) => return (tools, vec![error]),
        };
        let api = keys.iter().fold(api, |api, (scheme, key)| api.key(scheme, key));
        for id in api.operation_ids() {
            match api.tool(id).and_then(|tool| tool.tool()) {
                Ok(tool) => tools.push(tool),
                Err(error) => errors.push(error),
            }
        }
        return (tools, errors);
    }
    let made = match has("query") {
        true => GraphqlTool::read(text).and_then(|tool| tool.access(access.clone()).tool()),
        false => ApiTool::read(text).and_then(|tool| tool.access(access.clone()).tool()),
    };
    match made {
        Ok(tool) => tools.push(tool),
        Err(error) => errors.push(error),
    }
    (tools, errors)
}
