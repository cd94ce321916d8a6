//! Unpacks untrusted archives. Nothing is written outside of the folder, and the size of the content is limited.

mod form;
mod problem;
mod rules;
mod stage;
mod tar;
mod unpack;
mod zip;

pub(crate) use self::stage::{EntryKind, Member, Stage};
pub use self::{
    problem::Problem,
    tar::{Kind as TarKind, Reader as TarReader},
    zip::{Entry as ZipEntry, directory as zip_directory},
};
