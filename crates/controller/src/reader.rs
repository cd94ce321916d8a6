//! Reads a cluster once, for commands that show its objects. This module is the only place that handles missing APIs and
//! words the errors.

use std::fmt::Debug;

use kube::{Api, api::ListParams};
use serde::de::DeserializeOwned;

/// Objects per page of a list.
const PAGE_SIZE: u32 = 500;

/// The response of API servers to requests for an API that they do not serve. The text is not JSON.
const NO_SUCH_API: &str = "404 page not found";

/// Lists all objects that `parameters` select. Returns `None` if the cluster does not serve their API.
///
/// # Errors
/// If the API server does not respond, or refuses the request.
pub async fn list<K>(api: &Api<K>, parameters: &ListParams) -> Result<Option<Vec<K>>, kube::Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let mut parameters = parameters.clone().limit(PAGE_SIZE);
    let mut all = Vec::new();
    loop {
        let page = match api.list(&parameters).await {
            Ok(page) => page,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        all.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(Some(all)),
        }
    }
}

/// Whether a list failed because the cluster does not serve the API. For a kind that is served, a list never returns 404.
pub fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Describes an error for users: the message of the API server, or why it could not be reached.
pub fn sentence(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => match (status.message.trim(), status.code) {
            ("", code) => format!("the API server answered with code {code}"),
            (NO_SUCH_API, _) => "the API server does not serve this API".to_owned(),
            (message, 401) => format!("{message}: the API server does not know the user of the kubeconfig"),
            (message, _) => message.to_owned(),
        },
        other => {
            let cause = longboat_tls::innermost(other);
            if cause.is_empty() { other.to_string() } else { cause }
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn answered(message: &str, reason: &str, code: u16) -> kube::Error {
        kube::Error::Api(Status::failure(message, reason).with_code(code).boxed())
    }

    #[test]
    fn an_api_that_is_not_served_is_told_from_other_failures() {
        assert!(is_missing(&answered("404 page not found\n", "Failed to parse error data", 404)));
        assert!(is_missing(&answered("the server could not find the requested resource", "NotFound", 404)));
        assert!(!is_missing(&answered("forbidden", "Forbidden", 403)));
        assert!(!is_missing(&answered("unavailable", "ServiceUnavailable", 503)));
    }

    #[test]
    fn errors_are_sentences_without_the_parts_of_a_status() {
        let refused =
            std::io::Error::new(std::io::ErrorKind::ConnectionRefused, "Connection refused (os error 111)");
        for (error, sentence) in [
            (
                answered("404 page not found\n", "Failed to parse error data", 404),
                "the API server does not serve this API",
            ),
            (
                answered("Unauthorized", "Unauthorized", 401),
                "Unauthorized: the API server does not know the user of the kubeconfig",
            ),
            (answered("pods is forbidden", "Forbidden", 403), "pods is forbidden"),
            (answered("", "", 502), "the API server answered with code 502"),
            (kube::Error::ReadEvents(refused), "Connection refused (os error 111)"),
        ] {
            assert_eq!(super::sentence(&error), sentence);
        }
    }
}
