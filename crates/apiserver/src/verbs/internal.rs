//! Deletions by the server itself. They have every effect of a request (webhooks, finalizers, grace periods).

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::{Call, delete};
use crate::{
    kinds::Resource,
    request::{Request, User, accept::Accept, path::ResourcePath, query::Query},
    state::State,
    status::ApiError,
    store::{Key, StoredObject},
};

/// Deletes an object in the background, if the object with that name still has the same uid.
pub(crate) async fn delete(
    state: &Arc<State>,
    resource: &Arc<Resource>,
    stored: &StoredObject,
) -> Result<(), ApiError> {
    let key = Key::of(stored.value.head());
    let request = Request {
        method: Method::DELETE,
        path: String::new(),
        query: Query::default(),
        raw_query: None,
        connection: None,
        headers: HeaderMap::new(),
        accept: Accept::parse(""),
        body: Bytes::new(),
        user: User::administrator(),
        upgrade: None.into(),
    };
    let mut call = Call {
        state,
        request: &request,
        resource: Arc::clone(resource),
        path: ResourcePath {
            group: resource.group.clone(),
            version: resource.version.clone(),
            namespace: resource.namespaced.then(|| key.namespace.clone()),
            plural: resource.plural.clone(),
            name: Some(key.name.clone()),
            rest: Vec::new(),
        },
        warnings: Vec::new(),
    };
    let uid = stored.metadata()["uid"].as_str().unwrap_or_default();
    let options = delete::Options::background().only(uid);
    match delete::object(&mut call, &key, &options).await {
        Ok(_) => Ok(()),
        Err(error) if error.code == 404 => Ok(()),
        Err(error) => Err(error),
    }
}
