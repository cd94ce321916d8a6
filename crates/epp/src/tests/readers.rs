//! The reviews that the picker asks the API server for before it serves metrics.

use std::{convert::Infallible, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::readers::Readers;

/// An API server that authenticates any token and allows or denies access. Returns the received requests.
fn api_server(allowed: bool) -> (kube::Client, Arc<Mutex<Vec<Value>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let keep = Arc::clone(&keep);
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut object: Value = serde_json::from_slice(&body).unwrap();
            keep.lock().push(object.clone());
            object["status"] = if object["kind"] == "TokenReview" {
                json!({"authenticated": true, "user": {
                    "username": "prometheus", "uid": "1", "groups": ["scrapers"],
                    "extra": {"example.com/scopes": ["metrics", "logs"]},
                }})
            } else {
                json!({"allowed": allowed})
            };
            let body = Full::new(Bytes::from(object.to_string()));
            Ok::<_, Infallible>(Response::builder().status(StatusCode::CREATED).body(body).unwrap())
        }
    });
    (kube::Client::new(service, "default"), asked)
}

fn sender() -> HeaderMap {
    HeaderMap::from_iter([(header::AUTHORIZATION, "Bearer token".parse().unwrap())])
}

#[tokio::test]
async fn all_that_is_known_of_a_reader_reaches_the_api_server() {
    let (client, asked) = api_server(true);
    let readers = Readers::new(client);
    assert_eq!(readers.may_read(&sender()).await, Ok(()));
    assert_eq!(readers.may_read(&sender()).await, Ok(()), "from the cache");
    let asked = asked.lock();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0]["spec"], json!({"token": "token"}));
    assert_eq!(
        asked[1]["spec"],
        json!({
            "user": "prometheus", "uid": "1", "groups": ["scrapers"],
            "extra": {"example.com/scopes": ["metrics", "logs"]},
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        })
    );
}

#[tokio::test]
async fn who_is_known_and_not_allowed_reads_nothing() {
    let (client, _) = api_server(false);
    assert_eq!(Readers::new(client).may_read(&sender()).await, Err(StatusCode::FORBIDDEN));
}
