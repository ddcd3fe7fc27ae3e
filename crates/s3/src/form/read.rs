//! Reading a form: fields into memory, the file as a stream.

use bytes::{Bytes, BytesMut};
use dewar_http_front::{FormDecoder, FormStep};

use super::policy::LengthRange;
use crate::error::{Code, Refusal, Result};
use crate::limits::{FORM_FIELD_BYTES_MAX, FORM_FIELDS_BYTES_MAX, FORM_FIELDS_MAX};
use crate::payload::RequestBody;

/// The fields of a form before its file, names in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormFields {
    fields: Vec<(String, String)>,
    file_name: Option<String>,
    file_type: Option<String>,
}

impl FormFields {
    /// The value of a field, by its lower-case name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(there, _)| there == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All fields.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// The Content-Type of the file's part.
    #[must_use]
    pub fn file_type(&self) -> Option<&str> {
        self.file_type.as_deref()
    }

    /// Adds a field; used by tests and by [`FormUpload::read`].
    pub(crate) fn push(&mut self, name: &str, value: String) -> Result<()> {
        let name = name.to_ascii_lowercase();
        if self.get(&name).is_some() {
            let message = format!("The form field {name:?} is given more than once.");
            return Err(Refusal::new(Code::InvalidArgument, message));
        }
        if self.fields.len() == FORM_FIELDS_MAX {
            return Err(too_much("The form has too many fields."));
        }
        self.fields.push((name, value));
        Ok(())
    }

    /// Replaces `${filename}` in the key by the file's name, without directories, which some
    /// browsers send.
    fn fill_in_file_name(&mut self) {
        let name = self.file_name.as_deref().unwrap_or_default();
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
        for (field, value) in &mut self.fields {
            if field == "key" {
                *value = value.replace("${filename}", name);
            }
        }
    }
}

fn too_much(message: &'static str) -> Refusal {
    Refusal::new(Code::MaxMessageLengthExceeded, message)
}

/// A form whose fields have been read and whose file is to be read.
pub struct FormUpload {
    body: RequestBody,
    decoder: FormDecoder,
    input: Bytes,
    length: LengthRange,
    received: u64,
    file_ended: bool,
}

impl FormUpload {
    /// Reads up to the file.
    ///
    /// # Errors
    /// `MalformedPOSTRequest`, `MaxMessageLengthExceeded`, `InvalidArgument` without a file, and
    /// those of [`RequestBody::next`].
    pub async fn read(body: RequestBody, boundary: &str) -> Result<(FormFields, Self)> {
        let mut upload = Self {
            body,
            decoder: FormDecoder::new(boundary),
            input: Bytes::new(),
            length: LengthRange {
                min: 0,
                max: u64::MAX,
            },
            received: 0,
            file_ended: false,
        };
        let mut fields = FormFields::default();
        let mut total = 0;
        loop {
            let (name, file_name, content_type) = match upload.step().await? {
                FormStep::Part {
                    name,
                    file_name,
                    content_type,
                } => (name, file_name, content_type),
                _ => {
                    let message = "POST requires exactly one file upload per request.";
                    return Err(Refusal::new(Code::InvalidArgument, message));
                }
            };
            if name.eq_ignore_ascii_case("file") {
                fields.file_name = file_name;
                fields.file_type = content_type;
                fields.fill_in_file_name();
                return Ok((fields, upload));
            }
            let value = upload.field().await?;
            total += name.len() + value.len();
            if total > FORM_FIELDS_BYTES_MAX {
                return Err(too_much("The fields of the form are too large."));
            }
            fields.push(&name, value)?;
        }
    }

    async fn field(&mut self) -> Result<String> {
        let mut value = BytesMut::new();
        loop {
            match self.step().await? {
                FormStep::Data(data) => {
                    if value.len() + data.len() > FORM_FIELD_BYTES_MAX {
                        return Err(too_much("A field of the form is too large."));
                    }
                    value.extend_from_slice(&data);
                }
                _ => {
                    return String::from_utf8(value.into()).map_err(|_| {
                        let message = "A field of the form is not UTF-8.";
                        Refusal::new(Code::MalformedPOSTRequest, message)
                    });
                }
            }
        }
    }

    /// Sets how many bytes the file may have.
    pub fn limit(&mut self, length: LengthRange) {
        self.length = length;
    }

    /// Bytes of the file so far.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The next bytes of the file; `None` once file, form and body have ended with correct lengths.
    ///
    /// # Errors
    /// `EntityTooLarge`, `EntityTooSmall`, `MalformedPOSTRequest`, and those of
    /// [`RequestBody::next`].
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        while !self.file_ended {
            match self.step().await? {
                FormStep::Data(data) => {
                    self.received += data.len() as u64;
                    if self.received > self.length.max {
                        return Err(self.out_of_range(Code::EntityTooLarge));
                    }
                    return Ok(Some(data));
                }
                _ => self.file_ended = true,
            }
        }
        // Fields after the file mean nothing (S3), but the form must end properly.
        while self.step().await? != FormStep::Done {}
        self.input.clear();
        while self.body.next().await?.is_some() {}
        if self.received < self.length.min {
            return Err(self.out_of_range(Code::EntityTooSmall));
        }
        Ok(None)
    }

    fn out_of_range(&self, code: Code) -> Refusal {
        let message = match code {
            Code::EntityTooSmall => "Your proposed upload is smaller than the minimum allowed size",
            _ => "Your proposed upload exceeds the maximum allowed size",
        };
        Refusal::new(code, message)
            .element("ProposedSize", self.received.to_string())
            .element("MinSizeAllowed", self.length.min.to_string())
            .element("MaxSizeAllowed", self.length.max.to_string())
    }

    async fn step(&mut self) -> Result<FormStep> {
        loop {
            match self.decoder.step(&mut self.input)? {
                FormStep::More => match self.body.next().await? {
                    Some(bytes) => self.input = bytes,
                    None => self.decoder.end()?,
                },
                step => return Ok(step),
            }
        }
    }
}
