//! Prompt arguments that a client may omit: asks the person at the client for them, and reads the
//! answer. The server keeps no state between the two requests, because the second one repeats the
//! arguments of the first.

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    ErrorCode, InputRequest, InputRequiredResult, InputResponses,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};

use super::request_kind;
use super::served_prompt::{PromptArgument, PromptArguments, ServedPrompt};
use super::served_question::has_forms;

/// Key of the question and of its answer.
const ARGUMENTS: &str = "arguments";

/// Adds the person's answer to the arguments, and returns the next question. Returns `None` when no
/// argument is missing.
///
/// # Errors
/// Fails if a required argument is missing and cannot be asked for, the client does not support
/// such questions, or the person declined.
pub(super) fn complete(
    prompt: &ServedPrompt,
    given: &mut PromptArguments,
    mut responses: InputResponses,
    context: &RequestContext<RoleServer>,
) -> Result<Option<InputRequiredResult>, ErrorData> {
    let needs = |argument: &PromptArgument| {
        let problem =
            format!("the prompt `{}` needs the argument `{}`", prompt.name, argument.name);
        Err(ErrorData::invalid_params(problem, None))
    };
    let missing = prompt.missing(given);
    let Some(first) = missing.first() else { return Ok(None) };
    // An argument without `is_asked` must be sent by the client.
    if let Some(required) = missing.iter().find(|argument| !argument.is_asked) {
        return needs(required);
    }
    // Only clients of the newest revision repeat the request with the answers.
    if !request_kind::is_without_handshake(context) {
        return needs(first);
    }
    if !has_forms(context) {
        let problem = format!(
            "the prompt `{}` needs the argument `{}`, and this client does not say that its person can be asked for it",
            prompt.name, first.name
        );
        let data = json!({"requiredCapabilities": {"elicitation": {"form": {}}}});
        return Err(ErrorData::new(
            ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
            problem,
            Some(data),
        ));
    }
    let mut problem = None;
    match responses.remove(ARGUMENTS).map(said) {
        None => {}
        Some(Ok(None)) => return needs(first),
        // If a value has the wrong type, the question is repeated with the problem in its message.
        Some(Ok(Some(mut said))) => {
            for PromptArgument { name, .. } in &missing {
                match said.remove(name) {
                    Some(Value::String(value)) => given.insert(name.clone(), value),
                    _ => problem = Some(format!("`{name}` must be a text")),
                }
            }
        }
        Some(Err(refused)) => problem = Some(refused),
    }
    let missing = prompt.missing(given);
    if missing.is_empty() {
        return Ok(None);
    }
    let form = form(prompt, &missing, problem.as_deref()).map_err(|error| {
        ErrorData::internal_error(format!("the prompt `{}`: {error}", prompt.name), None)
    })?;
    let asked = InputRequest::Elicitation(ElicitRequest::new(form));
    Ok(Some(InputRequiredResult::from_input_requests([(ARGUMENTS.to_owned(), asked)].into())))
}

/// Returns the values that the person has filled in, or `None` if the person declined.
fn said(response: Value) -> Result<Option<Map<String, Value>>, String> {
    let result: ElicitResult = serde_json::from_value(response)
        .map_err(|error| format!("it is not the answer to an elicitation: {error}"))?;
    match (result.action, result.content) {
        (ElicitationAction::Accept, Some(Value::Object(said))) => Ok(Some(said)),
        (ElicitationAction::Accept, _) => Ok(Some(Map::new())),
        _ => Ok(None),
    }
}

fn form(
    prompt: &ServedPrompt,
    missing: &[&PromptArgument],
    problem: Option<&str>,
) -> Result<ElicitRequestParams, serde_json::Error> {
    let mut message = format!(
        "What is filled into the prompt `{}`?",
        prompt.title.as_ref().unwrap_or(&prompt.name)
    );
    if let Some(problem) = problem {
        message = format!("{message}\nThe last answer was refused: {problem}");
    }
    let names: Vec<&str> = missing.iter().map(|argument| argument.name.as_str()).collect();
    let fields = missing.iter().map(|argument| {
        let mut field = Map::from_iter([("type".to_owned(), Value::from("string"))]);
        field.extend(
            argument
                .description
                .iter()
                .map(|text| ("description".to_owned(), Value::from(text.as_str()))),
        );
        (argument.name.clone(), Value::Object(field))
    });
    let schema = json!({"type": "object", "properties": Map::from_iter(fields), "required": names});
    let requested_schema: ElicitationSchema = serde_json::from_value(schema)?;
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}
