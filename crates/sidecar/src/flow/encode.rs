//! The stage before the prefill: sends each item of a request to an encoder.

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use longboat_tls::chain;
use serde_json::value::RawValue;
use uuid::Uuid;

use super::{engines::Flow, head::Head};
use crate::{
    answer, api,
    body::{MAX_RESPONSE_BYTES, ProxyBody, read},
    connectors::{
        Part,
        encoder::{self, EmbeddingLocations, Encoder},
    },
    headers,
    object::Object,
    target::Target,
};

/// The most items of one request that are encoded at the same time.
const MAX_CONCURRENT_ITEMS: usize = 64;

// === impl Flow ===

impl Flow {
    /// Encodes all items, and distributes them over the encoders in turn. If one item fails, the others are cancelled.
    pub(super) async fn encode(
        &self,
        encoder: Encoder,
        request: &Object<'_>,
        encoders: &[Target],
        id: Uuid,
    ) -> Result<EmbeddingLocations, Box<Response<ProxyBody>>> {
        let items = encoder::items(request);
        let mut waiting = items.into_iter().enumerate().zip(encoders.iter().cycle());
        let mut running: FuturesUnordered<BoxFuture<'_, Result<(usize, EmbeddingLocations), String>>> =
            FuturesUnordered::new();
        let mut found = Vec::new();
        loop {
            while running.len() < MAX_CONCURRENT_ITEMS
                && let Some(((index, item), target)) = waiting.next()
            {
                let id = format!("{id}-enc-{index}");
                let asking = self.encoded(encoder, request, (index, item), target, id);
                running.push(self.in_time(asking, target).boxed());
            }
            match running.next().await {
                Some(Ok(one)) => found.push(one),
                Some(Err(why)) => {
                    tracing::warn!(why, "Cannot encode an item of a request.");
                    return Err(Box::new(answer::error(StatusCode::BAD_GATEWAY, &why)));
                }
                None => break,
            }
        }
        // Of two locations with one name, the same one must count, whichever encoder was faster.
        found.sort_by_key(|(index, _)| *index);
        Ok(found.into_iter().flat_map(|(_, found)| found).collect())
    }

    async fn in_time<T>(
        &self,
        asking: impl Future<Output = Result<T, String>>,
        target: &Target,
    ) -> Result<T, String> {
        let Some(patience) = self.settings.patience else { return asking.await };
        tokio::time::timeout(patience, asking).await.unwrap_or_else(|_| {
            let (endpoint, patience) = (target.authority(), patience.as_secs_f64());
            Err(format!("encoder {endpoint} did not answer within {patience} s (--prefill-timeout)"))
        })
    }

    async fn encoded(
        &self,
        encoder: Encoder,
        request: &Object<'_>,
        (index, item): (usize, &RawValue),
        target: &Target,
        id: String,
    ) -> Result<(usize, EmbeddingLocations), String> {
        let endpoint = target.authority();
        // An encoder receives only the item and the other fields of the body, and none of the client's headers.
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Ok(id) = HeaderValue::try_from(id) {
            headers.insert(headers::REQUEST_ID, id);
        }
        let head = Head { uri: Uri::from_static(api::CHAT), headers };
        let item_request = head.request(Part { body: encoder::body(request, item).into(), rank: None });
        let answer = self
            .encoder
            .send(endpoint, item_request)
            .await
            .map_err(|error| format!("encoder {endpoint} did not answer: {}", chain(&error)))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("encoder {endpoint} answered {status}"));
        }
        let body = read(answer.into_body(), MAX_RESPONSE_BYTES)
            .await
            .map_err(|error| format!("the answer of encoder {endpoint} is unusable: {}", chain(&error)))?;
        let found = encoder.found(&body);
        found
            .map(|found| (index, found))
            .map_err(|error| format!("the answer of encoder {endpoint} is not a JSON object: {error}"))
    }
}
