//! Classifies a request to the API server by its method and path.

use http::{Method, Uri};

/// A request to the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiRequest {
    pub(super) method: String,
    /// Resource and verb of a write.
    pub(super) write: Option<(String, &'static str)>,
}

impl ApiRequest {
    pub(crate) fn new(method: &Method, uri: &Uri) -> Self {
        Self { method: method.as_str().to_owned(), write: write(method, uri) }
    }

    /// Resource and verb of a write.
    pub(crate) fn write(&self) -> Option<(&str, &'static str)> {
        self.write.as_ref().map(|(resource, verb)| (resource.as_str(), *verb))
    }

    /// Whether the request may change an object.
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD")
    }
}

fn write(method: &Method, uri: &Uri) -> Option<(String, &'static str)> {
    let verb = match *method {
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => return None,
    };
    // The path is /api/v1/… or /apis/GROUP/VERSION/…, followed by namespaces/NAME for namespaced objects.
    let mut parts = uri.path().split('/').filter(|part| !part.is_empty());
    let skipped = if parts.next()? == "api" { 1 } else { 2 };
    let rest: Vec<&str> = parts.skip(skipped).collect();
    let rest = match rest.as_slice() {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    let resource = match *rest {
        [resource, _, subresource] => format!("{resource}/{subresource}"),
        [resource, ..] => resource.to_owned(),
        [] => return None,
    };
    Some((resource, verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_told_by_resource_and_verb() {
        let found = |method: Method, uri: &str| ApiRequest::new(&method, &uri.parse().unwrap()).write;
        let write = |resource: &str, verb| Some((resource.to_owned(), verb));
        assert_eq!(found(Method::GET, "/api/v1/namespaces/ns/secrets/a"), None);
        assert_eq!(
            found(Method::POST, "/api/v1/namespaces/ns/secrets?fieldManager=x"),
            write("secrets", "create")
        );
        assert_eq!(
            found(Method::PUT, "/apis/apps/v1/namespaces/ns/deployments/a"),
            write("deployments", "update")
        );
        assert_eq!(found(Method::DELETE, "/apis/g/v1/clusterthings/a"), write("clusterthings", "delete"));
        let services = "/apis/serving.kserve.io/v1alpha2/namespaces/ns/llminferenceservices";
        assert_eq!(
            found(Method::PATCH, &format!("{services}/a/status")),
            write("llminferenceservices/status", "patch")
        );
    }
}
