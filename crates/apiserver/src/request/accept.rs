//! The `Accept` header: the form of answer that the client can read.

use http::{HeaderMap, header::ACCEPT};

use crate::status::ApiError;

/// The encoding of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    /// Indented JSON, for people (`pretty`).
    PrettyJson,
    Yaml,
}

/// The representation of an object in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The object itself.
    Itself,
    /// A `Table`, in the named version of meta.k8s.io.
    Table(String),
    /// Only metadata.
    Partial(String),
    /// Only metadata, of a list.
    PartialList(String),
    /// Aggregated discovery, in the named version.
    Discovery(String),
}

/// An encoding with a shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) encoding: Encoding,
    pub(crate) shape: Shape,
}

#[derive(Debug, Clone)]
struct Entry {
    media: String,
    parameters: Vec<(String, String)>,
    quality: f32,
}

/// The parsed header, the preferred entry first.
#[derive(Debug, Clone)]
pub(crate) struct Accept(Vec<Entry>);

/// The media types of answers with objects.
pub(crate) const OBJECTS: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// The media types of watch streams.
const STREAMS: &str = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";

// === impl Accept ===

impl Accept {
    /// Parses the header of a request. Several lines of it form one list.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let lines: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok()).collect();
        Self::parse(&lines.join(","))
    }

    pub(crate) fn parse(header: &str) -> Self {
        let mut entries: Vec<Entry> = header
            .split(',')
            .filter(|part| !part.trim().is_empty())
            .map(|part| {
                let mut pieces = part.split(';').map(str::trim);
                let media = pieces.next().unwrap_or_default().to_ascii_lowercase();
                let mut quality = 1.0;
                let mut parameters = Vec::new();
                for piece in pieces {
                    let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
                    let value = value.trim().trim_matches('"');
                    if name.trim() == "q" {
                        quality = value.parse().unwrap_or(1.0);
                    } else {
                        parameters.push((name.trim().to_owned(), value.to_owned()));
                    }
                }
                Entry { media, parameters, quality }
            })
            .collect();
        entries.sort_by(|a, b| b.quality.total_cmp(&a.quality));
        Self(entries)
    }

    /// Chooses the form of a single object or a list.
    pub(crate) fn object(&self, pretty: bool) -> Result<Form, ApiError> {
        self.choose(pretty, |entry| match entry.shape()? {
            Shape::Discovery(_) => None,
            shape => Some(shape),
        })
        .ok_or_else(|| ApiError::not_acceptable(OBJECTS))
    }

    /// Chooses the form of documents without a table (discovery, version, reviews).
    pub(crate) fn discovery(&self, pretty: bool) -> Result<Form, ApiError> {
        self.choose(pretty, |entry| match entry.shape()? {
            shape @ (Shape::Itself | Shape::Discovery(_)) => Some(shape),
            _ => None,
        })
        .ok_or_else(|| ApiError::not_acceptable(OBJECTS))
    }

    /// Chooses the form of the objects in a watch stream.
    pub(crate) fn stream(&self) -> Result<Form, ApiError> {
        if self.0.is_empty() {
            return Ok(Form { encoding: Encoding::Json, shape: Shape::Itself });
        }
        self.0
            .iter()
            .filter(|entry| matches!(entry.media.as_str(), "application/json" | "*/*" | "application/*"))
            .find_map(|entry| match entry.shape()? {
                Shape::Discovery(_) => None,
                shape => Some(Form { encoding: Encoding::Json, shape }),
            })
            .ok_or_else(|| ApiError::not_acceptable(STREAMS))
    }

    /// Chooses the encoding of an error for this client.
    pub(crate) fn refusal(&self) -> Encoding {
        self.choose(false, |_| Some(Shape::Itself)).map_or(Encoding::Json, |form| form.encoding)
    }

    fn choose(&self, pretty: bool, shape: impl Fn(&Entry) -> Option<Shape>) -> Option<Form> {
        let json = if pretty { Encoding::PrettyJson } else { Encoding::Json };
        if self.0.is_empty() {
            return Some(Form { encoding: json, shape: Shape::Itself });
        }
        self.0.iter().find_map(|entry| {
            let encoding = match entry.media.as_str() {
                "application/json" | "*/*" | "application/*" => json,
                "application/yaml" => Encoding::Yaml,
                _ => return None,
            };
            Some(Form { encoding, shape: shape(entry)? })
        })
    }
}

// === impl Entry ===

impl Entry {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Returns the shape that the parameters ask for, or `None` if it is unknown.
    fn shape(&self) -> Option<Shape> {
        let Some(shape) = self.parameter("as").filter(|s| !s.is_empty()) else {
            return Some(Shape::Itself);
        };
        let group = self.parameter("g").unwrap_or_default();
        let version = self.parameter("v").unwrap_or_default().to_owned();
        let meta = group == "meta.k8s.io" && (version == "v1" || version == "v1beta1");
        match shape {
            "Table" if meta => Some(Shape::Table(version)),
            "PartialObjectMetadata" if meta => Some(Shape::Partial(version)),
            "PartialObjectMetadataList" if meta => Some(Shape::PartialList(version)),
            "APIGroupDiscoveryList" if group == "apidiscovery.k8s.io" && version == "v2" => {
                Some(Shape::Discovery(version))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_quality_wins_and_unknown_shapes_fall_through() {
        let accept = Accept::parse("application/json;as=Odd;g=meta.k8s.io;v=v1, application/yaml;q=0.5");
        let form = accept.object(false).unwrap();
        assert_eq!(form.encoding, Encoding::Yaml);
    }

    #[test]
    fn protobuf_alone_is_refused() {
        assert!(Accept::parse("application/vnd.kubernetes.protobuf").object(false).is_err());
    }
}
