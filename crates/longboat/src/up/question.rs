//! How to ask a service: the address of one of its APIs, and what a request needs. Pure, except for a look at the gateway's
//! current routes.

use longboat_api::v1alpha2::LLMInferenceService;
use longboat_local::Entrance;
use serde_json::json;

use super::service::Gateway;

/// An API of a model server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Completions,
    Embeddings,
}

/// A request that a service answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) api: Api,
    pub(crate) url: String,
    /// Headers that the route requires.
    pub(crate) headers: Vec<(String, String)>,
}

// === impl Api ===

impl Api {
    /// The APIs, with the one first that most clients use.
    const ALL: [Self; 3] = [Self::Chat, Self::Completions, Self::Embeddings];

    /// Returns the path of the API after `/v1`.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completions => "/completions",
            Self::Embeddings => "/embeddings",
        }
    }

    /// Returns the JSON of a request with this text.
    pub(crate) fn body(self, model: &str, text: &str) -> String {
        let (model, text) = (json!(model), json!(text));
        let asked = match self {
            Self::Chat => format!("\"messages\": [{{\"role\": \"user\", \"content\": {text}}}]"),
            Self::Completions => format!("\"prompt\": {text}"),
            Self::Embeddings => format!("\"input\": {text}"),
        };
        format!("{{\"model\": {model}, {asked}}}")
    }

    /// Returns where an event of a streamed answer has its text, or `None` if answers have no text.
    pub(crate) fn text_pointer(self) -> Option<&'static str> {
        match self {
            Self::Chat => Some("/choices/0/delta/content"),
            Self::Completions => Some("/choices/0/text"),
            Self::Embeddings => None,
        }
    }
}

// === impl Question ===

impl Question {
    /// Returns a chat below the base URL of a service.
    pub(crate) fn below(url: &str) -> Self {
        let api = Api::Chat;
        Self { api, url: format!("{url}/v1{}", api.path()), headers: Vec::new() }
    }

    /// Returns a request that the gateway sends to a server of the service, or `None` if no route of the service leads to an
    /// API.
    pub(crate) fn through(gateway: &Gateway, service: &LLMInferenceService) -> Option<Self> {
        Api::ALL.into_iter().find_map(|api| {
            let entrance = gateway.routes.entrance(service, &format!("/v1{}", api.path()))?;
            Some(Self::at(&entrance, api))
        })
    }

    fn at(entrance: &Entrance, api: Api) -> Self {
        let authority = entrance.socket;
        let host = entrance.host.iter().map(|host| ("Host".to_owned(), host.clone()));
        let headers = host.chain(entrance.headers.iter().cloned()).collect();
        Self { api, url: format!("http://{authority}{}", entrance.path), headers }
    }

    /// Returns the base URL for OpenAI's clients, if they can send this request.
    pub(crate) fn base(&self) -> Option<&str> {
        self.url.strip_suffix(self.api.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_the_gateways_address_and_a_base_where_clients_can_use_it() {
        let entrance = |path: &str| Entrance {
            socket: "127.0.0.1:8081".parse().unwrap(),
            host: Some("a.example.com".into()),
            path: path.into(),
            headers: vec![("x-model".into(), "m".into())],
        };
        let question = Question::at(&entrance("/my/v1/completions"), Api::Completions);
        assert_eq!(question.url, "http://127.0.0.1:8081/my/v1/completions");
        assert_eq!(question.base(), Some("http://127.0.0.1:8081/my/v1"));
        let headers = [("Host", "a.example.com"), ("x-model", "m")];
        assert_eq!(question.headers, headers.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(Question::at(&entrance("/ask"), Api::Chat).base(), None);
    }
}
