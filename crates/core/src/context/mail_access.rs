//! Mailboxes: sending and taking messages in a step. Messages are part of the state that the step
//! saves, so the same rules decide which messages a step sees.

use super::Context;
use crate::error::{Error, Result};
use crate::mailbox::{MOST_MESSAGE, MOST_WAITING, Mail, MailKey, MailMessage, Mailbox};
use crate::state::StateOwner;
use crate::value::Encoded;

impl Context {
    /// Sends a message from one agent of a [`Mailbox`] to another, or to itself.
    ///
    /// The message is part of the record of the step's outcome: it is sent exactly once when the
    /// step completes, also after a crash, and not at all if the step fails. This step and its
    /// nested calls see the message immediately, and later steps see it when this step has
    /// completed. Concurrent steps do not see it.
    ///
    /// # Errors
    /// - [`Error::Mailbox`] if the mailbox does not contain one of the names, if the message cannot
    ///   be encoded as JSON without loss, if it has more than 16 KiB, if 256 messages already wait
    ///   for the recipient, and in a condition or a tap, which save nothing.
    /// - [`Error::State`] if the step has saved more than 1 MiB.
    ///
    /// On an error, no message is sent.
    pub fn send_mail<M: MailMessage>(
        &self,
        mailbox: &Mailbox<M>,
        from: &str,
        to: &str,
        message: &M,
    ) -> Result<()> {
        let refused = |problem: String| Error::Mailbox { mailbox: mailbox.name(), problem };
        let from = mailbox.known(from).map_err(refused)?;
        let to = mailbox.known(to).map_err(refused)?;
        self.mail_writable(mailbox)?;
        let encoded = message.encode().map_err(|error| {
            refused(format!("the message does not survive its way through JSON: {error}"))
        })?;
        let size = encoded.as_str().len();
        if size > MOST_MESSAGE {
            return Err(refused(format!(
                "the message has {size} bytes, more than the {MOST_MESSAGE} of one; save what is large as an artifact and send \
                 its name"
            )));
        }
        let keys = mailbox.keys();
        let mut states = self.run.states_or_new();
        let seen = states.seen_by(&self.path);
        // Messages that were taken count too, so that numbers are never reused.
        let sent = seen
            .changes()
            .filter_map(|(key, value)| Some((MailKey::read(key.strip_prefix(&keys)?)?, value)));
        let (mut last, mut waiting) = (0, 0);
        for (key, value) in sent {
            last = last.max(key.number);
            waiting += usize::from(value.is_some() && *key.to == *to);
        }
        if waiting >= MOST_WAITING {
            return Err(refused(format!(
                "{waiting} messages wait for `{to}`, which is the limit; let it read them before more are sent"
            )));
        }
        let key = MailKey {
            number: last.saturating_add(1),
            sent_at: self.path.clone(),
            from: from.into(),
            to: to.into(),
        };
        let key = self.with_room(&states, key.text(&keys), &encoded)?;
        states.change(&self.path, &key, Some(encoded));
        Ok(())
    }

    /// Takes all messages that wait for an agent of a [`Mailbox`], in the order in which they were
    /// sent. Messages of concurrent steps are ordered by the paths of their steps.
    ///
    /// The messages are removed when this step completes. A step that fails, or that a crash
    /// interrupts, removes none and sees the same messages when it runs again. Concurrent steps
    /// that read for one agent each see the messages that were sent before them.
    ///
    /// # Errors
    /// [`Error::Mailbox`] if the mailbox does not contain the name, if a message has a different
    /// type, which another version of the program may have sent, and in a condition or a tap. On an
    /// error, no message is taken.
    pub fn take_mail<M: MailMessage>(
        &self,
        mailbox: &Mailbox<M>,
        of: &str,
    ) -> Result<Vec<Mail<M>>> {
        Ok(self.take_mail_within(mailbox, of, usize::MAX)?.0)
    }

    /// Takes as many messages as fit into `bytes`, but at least one. Also returns the number of
    /// remaining messages.
    pub(crate) fn take_mail_within<M: MailMessage>(
        &self,
        mailbox: &Mailbox<M>,
        of: &str,
        bytes: usize,
    ) -> Result<(Vec<Mail<M>>, usize)> {
        let refused = |problem: String| Error::Mailbox { mailbox: mailbox.name(), problem };
        let of = mailbox.known(of).map_err(refused)?;
        self.mail_writable(mailbox)?;
        let keys = mailbox.keys();
        let mut states = self.run.states_or_new();
        let seen = states.seen_by(&self.path);
        let mut waiting: Vec<(MailKey, &Encoded)> = seen
            .changes()
            .filter_map(|(key, value)| Some((MailKey::read(key.strip_prefix(&keys)?)?, value?)))
            .filter(|(key, _)| *key.to == *of)
            .collect();
        waiting.sort_by(|(one, _), (other, _)| one.cmp(other));
        let mut size = 0;
        let fits = |(_, message): &&(MailKey, &Encoded)| {
            size += message.as_str().len();
            size <= bytes
        };
        let taken = waiting.iter().take_while(fits).count().max(waiting.len().min(1));
        let left = waiting.split_off(taken).len();
        let mail = waiting.iter().map(|(key, message)| match M::decode(message) {
            Ok(message) => Ok(Mail::new(&key.from, message)),
            Err(error) => Err(refused(format!(
                "a message of `{}` is not of the type `{}`: {error}",
                key.from,
                std::any::type_name::<M>()
            ))),
        });
        // All messages are decoded before any is removed, so that an error leaves the mailbox
        // unchanged.
        let mail = mail.collect::<Result<Vec<_>>>()?;
        for (key, _) in &waiting {
            states.change(&self.path, &key.text(&keys), None);
        }
        Ok((mail, left))
    }

    fn mail_writable<M>(&self, mailbox: &Mailbox<M>) -> Result<()> {
        let refused = |error: Error| match error {
            Error::State { problem, .. } => Error::Mailbox { mailbox: mailbox.name(), problem },
            other => other,
        };
        self.writable(StateOwner::Session, String::new()).map(drop).map_err(refused)
    }
}
