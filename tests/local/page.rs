//! The dashboard of a running `up`, as its page asks it.

use futures::StreamExt;
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    http::{self, Answer, block},
    local_cluster::LocalCluster,
    wait::LIMIT,
};

/// The dashboard's address and token.
pub(crate) struct Page {
    pub(crate) address: String,
    pub(crate) token: String,
}

// === impl Page ===

impl Page {
    pub(crate) fn of(world: &LocalCluster) -> Self {
        let said = world.running.stderr();
        let line = said.lines().find_map(|line| line.strip_prefix("dashboard: ")).unwrap();
        let (address, token) = line.trim().split_once("/#token=").unwrap();
        Self { address: address.to_owned(), token: token.to_owned() }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let url = format!("{}{path}", self.address);
        http::client().request(method.parse().unwrap(), url).bearer_auth(&self.token)
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: String) -> Answer {
        block(async { http::read(self.request(method, path).body(body).send().await.unwrap()).await })
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, String::new())
    }
}

/// A server-sent event stream of the dashboard.
pub(crate) struct Feed {
    stream: futures::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    rest: String,
}

// === impl Feed ===

impl Feed {
    pub(crate) fn open(page: &Page, service: &str) -> Self {
        let answer = block(page.request("GET", &format!("/api/feed?service={service}")).send()).unwrap();
        assert_eq!(answer.headers()["content-type"], "text/event-stream; charset=utf-8");
        Self { stream: answer.bytes_stream().boxed(), rest: String::new() }
    }

    /// The next event of this name for which the predicate holds.
    pub(crate) fn until(&mut self, name: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let start = format!("event: {name}\ndata: ");
        loop {
            while let Some((event, rest)) = self.rest.split_once("\n\n") {
                let data = event.strip_prefix(&start).map(|data| serde_json::from_str(data).unwrap());
                self.rest = rest.to_owned();
                if let Some(data) = data.filter(&is_it) {
                    return data;
                }
            }
            let chunk = block(async { timeout(LIMIT, self.stream.next()).await }).unwrap().unwrap().unwrap();
            self.rest.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }
}
