//! Creates the tool for an agent that a document names by its address. The tool connects only to
//! addresses that a guard allows, and only when it is called.

use std::sync::Arc;

use super::a2a_error::A2aError;
use super::memory_link::Link;
use super::peer::{Peer, Settings};
use super::remote_tool::tool_of;
use agentflow_core::tool::ToolRef;
use agentflow_tools::__private::HttpAddress;
use agentflow_tools::AddressGuard;

/// Maximum number of characters of the address in the name of the tool.
const SHOWN: usize = 100;

/// Creates the tool for the agent at an address. The tool is named after the address and has the
/// same arguments as the tool of an [`A2aClient`](super::A2aClient). The first call fetches the
/// agent's card.
///
/// # Errors
/// [`A2aError::Config`] if the address is invalid, or contains a user and a password.
pub(crate) fn endpoint_tool(endpoint: &str, guard: AddressGuard) -> Result<ToolRef, A2aError> {
    let address = HttpAddress { url: endpoint.to_owned(), ..HttpAddress::default() };
    // This is also the name of the agent in messages.
    let name: Arc<str> = address.masked(endpoint).into();
    let unusable = |problem: String| A2aError::Config { agent: Arc::clone(&name), problem };
    let url = address.url().map_err(unusable)?;
    if !url.username().is_empty() || url.password().is_some() {
        let problem =
            "its address has a user and a password; name the agent in `a2a_agents`, with its key";
        return Err(unusable(problem.to_owned()));
    }
    let tool: Arc<str> = tool_name(endpoint).into();
    let about = format!("Asks the agent at {name}.");
    let peer =
        Peer::new((name, Arc::clone(&tool)), address, Link::Guarded(guard), Settings::default());
    let tool = tool_of(&Arc::new(peer), &tool, &about);
    Ok(ToolRef::from(tool).with_wire_name())
}

/// Returns a tool name of letters, digits and `_`. Different addresses can have the same name,
/// because each node finds its tool by the address.
fn tool_name(endpoint: &str) -> String {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest).trim_end_matches('/');
    let letters =
        rest.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' });
    format!("a2a.{}", letters.take(SHOWN).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::{endpoint_tool, tool_name};
    use agentflow_tools::AddressGuard;

    #[test]
    fn an_address_is_a_tool() {
        assert_eq!(
            tool_name("https://agents.example:8443/team/a/"),
            "a2a.agents_example_8443_team_a"
        );
        let tool = endpoint_tool("https://agents.example/a", AddressGuard::default()).unwrap();
        assert_eq!(&**tool.catalogue_name(), "a2a.agents_example_a");
        assert_eq!(tool.name(), "a2a__agents_example_a");
        for (wrong, says) in [
            ("ftp://agents.example", "must begin with `http://` or `https://`"),
            ("https://ada:sesame-street@agents.example", "has a user and a password"),
            ("https://", "is not an address"),
        ] {
            let error = endpoint_tool(wrong, AddressGuard::default()).err().unwrap().to_string();
            assert!(error.contains(says) && !error.contains("sesame"), "{error}");
        }
    }
}
