//! Codes of the problems of names of models: `model.*`. `{name}` is replaced by an argument.

use agentflow_schema::diagnostic::codes;

codes! {
    NO_PROVIDER = "model.no-provider",
        "the model {model} cannot be used: name its provider too, as in `openai-chat/gpt-5-mini`";
    NOT_IN_BUILD = "model.not-in-build",
        "the adapter of {provider} is not in this build"
            => "switch on the cargo feature {feature}";
    UNKNOWN_MODEL = "model.unknown-model",
        "the model {model} cannot be used: no provider has models of such names";
    UNKNOWN_PROVIDER = "model.unknown-provider",
        "no adapter is called {provider}";
    UNUSABLE = "model.unusable",
        "the model {model} cannot be used: {problem}";
}
