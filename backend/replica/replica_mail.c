#include "backend/replica/replica_mail.h"

#include "shared/check.h"

void replica_mail_hold(struct replica_mail *mail, struct replica_letter *letter)
{
    letter->mail = mail;
    pthread_mutex_lock(&mail->lock);
    list_push(&mail->letters, &letter->link);
    pthread_mutex_unlock(&mail->lock);
}

void replica_mail_release(struct replica_letter *letter)
{
    pthread_mutex_lock(&letter->mail->lock);
    list_remove(&letter->link);
    pthread_mutex_unlock(&letter->mail->lock);
}

static void read_letter(struct task *task)
{
    struct replica_letter *letter = container_of(task, struct replica_letter, task);
    replica_mail_release(letter);
    letter->read(letter);
    letter->free(letter);
}

void replica_mail_init(struct replica_mail *mail)
{
    CHECK(pthread_mutex_init(&mail->lock, NULL) == 0);
    list_init(&mail->letters);
}

void replica_mail_fini(struct replica_mail *mail)
{
    struct list *link;
    while ((link = list_pop(&mail->letters))) {
        struct replica_letter *letter = container_of(link, struct replica_letter, link);
        letter->free(letter);
    }
    pthread_mutex_destroy(&mail->lock);
}

void replica_mail_send(struct replica_mail *mail, struct loop *to, struct replica_letter *letter)
{
    letter->task.run = read_letter;
    replica_mail_hold(mail, letter);
    loop_post(to, &letter->task);
}
