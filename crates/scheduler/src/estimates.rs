//! How many tokens images and videos count as in a prompt, without a tokenizer.

use serde::Deserialize;

use crate::numbers::float;

const USUAL_SIZE: Resolution = Resolution { width: 640, height: 360 };
const PIXELS_OF_TOKEN: u64 = 1024;
const USUAL_SECONDS: f64 = 10.0;
/// Frames in a second of which a model looks at each.
const SAMPLED: f64 = 2.0;
/// Frames in a second of a video file.
const RECORDED: f64 = 24.0;

/// The most tokens of an image or a video, because a few bytes may claim any size.
const MAX_TOKENS: u64 = 1 << 20;

/// The parameter `estimate` of `token-producer`. A number that is 0 has its default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MediaEstimates {
    image: Image,
    video: Video,
}

/// A width and a height in pixels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resolution {
    /// The width. 0 if it is unknown.
    pub width: u64,
    /// The height. 0 if it is unknown.
    pub height: u64,
}

/// What a request says about its videos. A number that is not above 0 is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct VideoProperties {
    /// The size of its frames.
    pub resolution: Resolution,
    /// Its length.
    pub seconds: f64,
    /// Its frames in a second.
    pub rate: f64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Image {
    mode: Mode,
    default_resolution: Resolution,
    dynamic: Dynamic,
    r#static: StaticImage,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Video {
    default_resolution: Resolution,
    default_duration: f64,
    tokens_per_frame: TokensPerFrame,
    frames: Frames,
    max_video_tokens: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    #[serde(alias = "")]
    Dynamic,
    Static,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Dynamic {
    factor: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct StaticImage {
    static_token: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TokensPerFrame {
    mode: Mode,
    dynamic: Dynamic,
    r#static: StaticFrame,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct StaticFrame {
    num_tokens_per_frame: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Frames {
    mode: FrameMode,
    #[serde(rename = "minFrames")]
    min: u64,
    #[serde(rename = "maxFrames")]
    max: u64,
    sampled: Sampled,
    strided: Strided,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FrameMode {
    #[default]
    #[serde(alias = "")]
    Sampled,
    Strided,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Sampled {
    #[serde(rename = "sampleFPS")]
    rate: f64,
    temporal_patch_size: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Strided {
    #[serde(rename = "defaultSourceFPS")]
    rate: f64,
    frame_stride: u64,
}

impl MediaEstimates {
    /// Returns the tokens of an image: at least one, so that every image counts.
    pub fn image(&self, found: Option<Resolution>) -> usize {
        let Image { mode, default_resolution, dynamic, r#static } = &self.image;
        bounded(match mode {
            Mode::Static => r#static.static_token,
            Mode::Dynamic => dynamic.tokens(found.unwrap_or(*default_resolution)),
        })
    }

    /// Returns the tokens of a video: at least one.
    pub fn video(&self, known: &VideoProperties) -> usize {
        let Video { default_resolution, default_duration, tokens_per_frame, frames, max_video_tokens } =
            &self.video;
        let of_frame = match tokens_per_frame.mode {
            Mode::Static => tokens_per_frame.r#static.num_tokens_per_frame.max(1),
            Mode::Dynamic => {
                let Resolution { width, height } = known.resolution;
                let is_known = width > 0 && height > 0;
                tokens_per_frame.dynamic.tokens(if is_known { known.resolution } else { *default_resolution })
            }
        };
        let seconds = first_above_zero([known.seconds, *default_duration, USUAL_SECONDS]);
        let tokens = frames.count(seconds, known.rate).saturating_mul(of_frame);
        bounded(tokens.min(above_zero(*max_video_tokens, u64::MAX)))
    }
}

impl Dynamic {
    fn tokens(self, Resolution { width, height }: Resolution) -> u64 {
        let (width, height) = (above_zero(width, USUAL_SIZE.width), above_zero(height, USUAL_SIZE.height));
        (width.saturating_mul(height) / above_zero(self.factor, PIXELS_OF_TOKEN)).max(1)
    }
}

impl Frames {
    fn count(&self, seconds: f64, rate: f64) -> u64 {
        let within = |frames: u64| frames.max(self.min).min(above_zero(self.max, u64::MAX));
        match self.mode {
            FrameMode::Sampled => {
                let frames = whole(seconds * first_above_zero([self.sampled.rate, SAMPLED]));
                within(frames) / self.sampled.temporal_patch_size.max(1)
            }
            FrameMode::Strided => {
                let frames = whole(seconds * first_above_zero([rate, self.strided.rate, RECORDED]));
                within(frames / self.strided.frame_stride.max(1))
            }
        }
    }
}

fn above_zero(value: u64, otherwise: u64) -> u64 {
    if value > 0 { value } else { otherwise }
}

fn first_above_zero<const N: usize>(values: [f64; N]) -> f64 {
    values.into_iter().find(|value| *value > 0.0).unwrap_or_default()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the number is within bounds")]
fn whole(number: f64) -> u64 {
    number.clamp(0.0, float(u64::from(u32::MAX))) as u64
}

fn bounded(tokens: u64) -> usize {
    usize::try_from(tokens.clamp(1, MAX_TOKENS)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimates(yaml: &str) -> MediaEstimates {
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn an_image_counts_by_its_size_or_by_a_constant() {
        let size = |width, height| Some(Resolution { width, height });
        for (parameters, found, tokens) in [
            ("{}", None, 225),
            ("{}", size(64, 32), 2),
            ("{}", size(1, 1), 1),
            ("{}", size(u64::MAX, 2), 1 << 20),
            ("{image: {mode: '', defaultResolution: {width: 1024}, dynamic: {factor: 512}}}", None, 720),
            ("{image: {mode: static}}", size(64, 32), 1),
            ("{image: {mode: static, static: {staticToken: 280}}}", size(64, 32), 280),
        ] {
            assert_eq!(estimates(parameters).image(found), tokens, "{parameters}");
        }
    }

    #[test]
    fn a_video_counts_by_its_frames_and_their_size() {
        let nothing = VideoProperties::default();
        let said = |width, height, seconds, rate| VideoProperties {
            resolution: Resolution { width, height },
            seconds,
            rate,
        };
        let constant = "tokensPerFrame: {mode: static}";
        let sampled = format!(
            "{{video: {{{constant}, frames: {{minFrames: 4, sampled: {{sampleFPS: 2, temporalPatchSize: 2}}}}}}}}"
        );
        let strided =
            format!("{{video: {{{constant}, frames: {{mode: strided, strided: {{frameStride: 2}}}}}}}}");
        for (parameters, known, tokens) in [
            ("{}", nothing, 20 * 225),
            ("{}", said(320, 240, 3.0, 0.0), 6 * 75),
            ("{video: {frames: {maxFrames: 3}, tokensPerFrame: {mode: static}}}", nothing, 3),
            ("{}", said(320, 0, f64::NAN, 0.0), 20 * 225),
            ("{}", said(320, 240, f64::INFINITY, 0.0), 1 << 20),
            ("{video: {maxVideoTokens: 100}}", nothing, 100),
            (&sampled, said(0, 0, 10.0, 60.0), 10),
            (&sampled, said(0, 0, 1.0, 0.0), 2),
            (&strided, said(0, 0, 3.0, 30.0), 45),
            (&strided, nothing, 120),
        ] {
            assert_eq!(estimates(parameters).video(&known), tokens, "{parameters}");
        }
    }
}
