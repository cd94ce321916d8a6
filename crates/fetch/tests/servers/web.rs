//! A plain web server.

use std::{collections::BTreeMap, sync::Arc};

use super::{Answer, Request, contents::known_md5, decoded};

/// A page of the server.
#[derive(Debug, Clone)]
pub enum Page {
    File { content: Arc<Vec<u8>>, kind: String },
    Redirect(String),
}

/// All pages by path.
#[derive(Debug, Default)]
pub struct Web(pub BTreeMap<String, Page>);

// === impl Web ===

impl Web {
    pub fn answer(&self, request: &Request) -> Answer {
        match self.0.get(&decoded(request.path())) {
            None => Answer::new(404, "no"),
            Some(Page::Redirect(to)) => Answer::new(302, "").with("Location", to.clone()),
            Some(Page::File { content, kind }) => Answer::file(content)
                .with("Content-Type", kind.clone())
                .with("ETag", format!("\"{}\"", known_md5(content))),
        }
    }
}
