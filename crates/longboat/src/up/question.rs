//! How to ask a service: the address of one of its APIs, and what a request needs. Pure, except for a look at the gateway's
//! current routes.

use std::net::SocketAddr;

use longboat_api::v1alpha2::LLMInferenceService;
use longboat_local::{Entrance, Keys, Routes};
use serde_json::json;

use super::engine_key::RequiredKey;

/// The gateway of this machine.
#[derive(Debug, Clone)]
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    pub(crate) routes: Routes,
    /// The API keys.
    pub(crate) keys: Keys,
}

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
    /// Where the host of the URL is, if it has a name. Only a listener with TLS needs one, because the name selects the
    /// certificate.
    pub(crate) resolve: Option<SocketAddr>,
    /// Whether the gateway asks for an API key, which only the person knows.
    pub(crate) needs_key: bool,
    /// The API key for which the engine asks. The gateway passes it on only if it asks for none itself.
    pub(crate) engine_key: Option<RequiredKey>,
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
        let input = match self {
            Self::Chat => format!("\"messages\": [{{\"role\": \"user\", \"content\": {text}}}]"),
            Self::Completions => format!("\"prompt\": {text}"),
            Self::Embeddings => format!("\"input\": {text}"),
        };
        format!("{{\"model\": {model}, {input}}}")
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
        let url = format!("{url}/v1{}", api.path());
        Self { api, url, headers: Vec::new(), resolve: None, needs_key: false, engine_key: None }
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
        let (socket, path) = (entrance.socket, &entrance.path);
        let mut headers = entrance.headers.clone();
        let (url, resolve) = match &entrance.host {
            Some(host) if entrance.is_secure => {
                (format!("https://{host}:{}{path}", socket.port()), Some(socket))
            }
            None if entrance.is_secure => (format!("https://{socket}{path}"), None),
            // No DNS knows the host, so the URL has the socket.
            host => {
                headers.splice(..0, host.iter().map(|host| ("Host".to_owned(), host.clone())));
                (format!("http://{socket}{path}"), None)
            }
        };
        Self { api, url, headers, resolve, needs_key: entrance.needs_key, engine_key: None }
    }

    /// Returns the host of the URL and its address, if the host has a name that only this machine knows.
    pub(crate) fn resolved(&self) -> Option<(String, SocketAddr)> {
        let host = self.url.parse::<http::Uri>().ok()?.host()?.to_owned();
        Some((host, self.resolve?))
    }

    /// The key of the engine, if it is known and nobody else needs the header for another one.
    pub(crate) fn known_key(&self) -> Option<&str> {
        self.engine_key.as_ref().filter(|_| !self.needs_key)?.text.as_deref()
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
            is_secure: false,
            host: Some("a.example.com".into()),
            path: path.into(),
            headers: vec![("x-model".into(), "m".into())],
            needs_key: false,
        };
        let question = Question::at(&entrance("/my/v1/completions"), Api::Completions);
        assert_eq!(question.url, "http://127.0.0.1:8081/my/v1/completions");
        assert_eq!(question.base(), Some("http://127.0.0.1:8081/my/v1"));
        let headers = [("Host", "a.example.com"), ("x-model", "m")];
        assert_eq!(question.headers, headers.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(Question::at(&entrance("/ask"), Api::Chat).base(), None);
        let secure = Entrance { is_secure: true, ..entrance("/my/v1/completions") };
        let question = Question::at(&secure, Api::Completions);
        assert_eq!(question.url, "https://a.example.com:8081/my/v1/completions");
        assert_eq!(question.resolved(), Some(("a.example.com".to_owned(), secure.socket)));
        assert_eq!(question.headers, [("x-model".to_owned(), "m".to_owned())]);
        let question = Question::at(&Entrance { host: None, ..secure }, Api::Completions);
        assert_eq!(
            (question.url.as_str(), question.resolve),
            ("https://127.0.0.1:8081/my/v1/completions", None)
        );
    }
}
