//! The HTTP code and message of a failed request. The texts of kube's own errors end with Rust's debug output of the response.

use kube::runtime::watcher;

/// Whether the API server responded with that code.
pub fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// Whether the API server responded with that code to the list or the request that begins a watch.
pub fn watch_has_code(error: &watcher::Error, code: u16) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) if has_code(error, code)
    )
}

/// Whether a request may succeed if it is repeated: it had no response, or the status 429 or 5xx.
pub fn is_temporary(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        kube::Error::BuildRequest(_) => false,
        _ => true,
    }
}

/// The message of the API server, or why it could not be reached.
pub fn text_of(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// Why a watch was interrupted: the message of the API server, or why it could not be reached.
pub fn text_of_watch(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(source)
        | watcher::Error::WatchStartFailed(source)
        | watcher::Error::WatchFailed(source) => text_of(source),
        watcher::Error::WatchError(status) => status.message.clone(),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn an_error_has_the_words_of_the_api_server_and_nothing_of_rust() {
        let message = "pods \"a\" is forbidden";
        let status = || Status::failure(message, "Forbidden").with_code(403).boxed();
        assert_eq!(text_of(&kube::Error::Api(status())), message);
        for error in [
            watcher::Error::InitialListFailed(kube::Error::Api(status())),
            watcher::Error::WatchStartFailed(kube::Error::Api(status())),
            watcher::Error::WatchFailed(kube::Error::Api(status())),
            watcher::Error::WatchError(status()),
        ] {
            assert_eq!(text_of_watch(&error), message);
        }
    }
}
