//! Sends a request through two engines. Each order of the engines is one module.

mod buffered;
mod chunked;
mod concurrent;
mod decode_first;
mod encode;
mod engines;
mod head;
mod prefill;
mod sequential;

use bytes::Bytes;
use http::{Response, StatusCode};
use uuid::Uuid;

use self::engines::RequestContext;
pub(crate) use self::{
    engines::{Flow, Route},
    head::Head,
};
use crate::{
    answer,
    api::Api,
    body::ProxyBody,
    connectors::{Identity, Part, Plan, SplitRequest, TRANSFER, encoder, p2p},
    headers,
    metrics::Outcome,
    object::Object,
};

// === impl Flow ===

impl Flow {
    /// Sends a request through the engines, and returns the client's response.
    pub(crate) async fn run(
        &self,
        api: Api,
        mut head: Head,
        body: Bytes,
        route: Route<'_>,
    ) -> Response<ProxyBody> {
        let parsed = match route.prefiller {
            Some(_) => self.connector.read(&body),
            None => Object::of(&body),
        };
        let mut request = match parsed {
            Ok(request) => request,
            Err(error) => return self.not_an_object(&error),
        };
        let id = Uuid::new_v4();
        let encoder = self.settings.encoder.filter(|_| !route.encoders.is_empty());
        let mut body = body.clone();
        if let Some(encoder) = encoder {
            headers::identify(&mut head.headers, id);
            match self.encode(encoder, &request, &route.encoders, id).await {
                Ok(found) => encoder::add_locations(&mut request, &found),
                Err(failed) => {
                    self.metrics.count(Outcome::EncodeFailed);
                    return *failed;
                }
            }
            // A decoder that falls back to doing everything needs the locations, too.
            body = request.to_vec().into();
        }
        let Some(prefiller) = route.prefiller else {
            return self.alone(&head, &body, request, &route).await;
        };
        // Requests that had an encoder never decode first: their cache threshold is 0, which is always met.
        if encoder.is_none()
            && self.connector.decodes_first(&request)
            && let Some(answer) = self.decode_first(&head, &body, &route).await
        {
            self.metrics.count(Outcome::DecodedFirst);
            return answer;
        }
        match self.connector.identity() {
            Identity::Kept => headers::identify(&mut head.headers, id),
            Identity::Own => headers::name(&mut head.headers, id),
            Identity::Untouched => {}
        }
        let ask = SplitRequest { api, request: &request, prefiller, id, source: route.source };
        let context = RequestContext { head: &head, original: &body, route: &route, prefiller };
        match self.connector.plan(ask).await {
            Ok(Plan::InTurn { prefill, decode }) => self.run_sequential(&context, prefill, decode).await,
            Ok(Plan::AtOnce { prefill, decode, failed }) => {
                self.at_once(&context, prefill, decode, failed).await
            }
            Ok(Plan::Held { prefill, decode, patience }) => {
                self.held(&context, prefill, decode, patience).await
            }
            Err(why) => {
                tracing::warn!(
                    target = %prefiller.authority(),
                    why,
                    "Cannot divide a request between prefill and decode."
                );
                self.failed(&context, prefill::failure(&why)).await
            }
        }
    }

    /// Sends a request without a prefill. The only addition is the source of cached blocks. Without it the engine gets the
    /// client's bytes, because writing a body anew could change it (white space, repeated names).
    async fn alone(
        &self,
        head: &Head,
        body: &Bytes,
        mut request: Object<'_>,
        route: &Route<'_>,
    ) -> Response<ProxyBody> {
        self.metrics.count(Outcome::Passed);
        let (Some(ports), Some(source)) = (self.settings.pull, route.source) else {
            return self.decode_alone(head, body, route.engine).await;
        };
        let peer = ports.peer(source, Uuid::new_v4());
        request.set_value(TRANSFER, &serde_json::json!({ p2p::SOURCE: peer }));
        self.decode(head, Part::from(&request), route.engine, None).await
    }

    fn not_an_object(&self, error: &serde_json::Error) -> Response<ProxyBody> {
        self.metrics.count(Outcome::Refused);
        let message = format!("the request's body is not a JSON object: {error}");
        answer::error(StatusCode::BAD_REQUEST, &message)
    }
}
