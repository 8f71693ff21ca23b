"""Caffe's losses and Accuracy in NumPy, element by element: (loss, gradients) from its definitions."""

from __future__ import annotations

from math import exp, log, prod, sqrt

import numpy as np

FLT_MIN = float(np.finfo(np.float32).tiny)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def normalizer(mode: str, outer: int, inner: int, valid: int) -> float:
    return max(1.0, {"FULL": outer * inner, "VALID": valid, "BATCH_SIZE": outer, "NONE": 1}[mode])


def softmax_loss(x, labels, axis=1, ignore=None, mode="VALID"):
    outer, classes, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    p = softmax(x, axis).reshape(outer, classes, inner)
    flat, loss, count, grad = labels.reshape(outer, inner), 0.0, 0, p.copy()
    for i in range(outer):
        for j in range(inner):
            label = int(flat[i, j])
            if label == ignore:
                grad[i, :, j] = 0
                continue
            loss -= log(max(p[i, label, j], FLT_MIN))
            grad[i, label, j] -= 1
            count += 1
    n = normalizer(mode, outer, inner, count)
    return loss / n, grad.reshape(x.shape) / n


def infogain_loss(x, labels, matrix, axis=1, ignore=None, mode="VALID"):
    outer, classes, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    p = softmax(x, axis).reshape(outer, classes, inner)
    h = matrix.reshape(classes, classes)
    flat, loss, count, grad = labels.reshape(outer, inner), 0.0, 0, np.zeros_like(p)
    for i in range(outer):
        for j in range(inner):
            label = int(flat[i, j])
            if label == ignore:
                continue
            for k in range(classes):
                loss -= h[label, k] * log(max(p[i, k, j], 1e-20))
                grad[i, k, j] = p[i, k, j] * h[label].sum() - h[label, k]
            count += 1
    n = normalizer(mode, outer, inner, count)
    return loss / n, grad.reshape(x.shape) / n


def sigmoid_loss(x, targets, ignore=None, mode="BATCH_SIZE"):
    flat, t, loss, count = x.ravel(), targets.ravel(), 0.0, 0
    grad = np.zeros(flat.shape)
    for i in range(flat.size):
        if ignore is not None and int(t[i]) == ignore:
            continue
        positive = float(flat[i] >= 0)
        loss -= flat[i] * (t[i] - positive) - log(1 + exp(flat[i] - 2 * flat[i] * positive))
        grad[i] = 1 / (1 + exp(-flat[i])) - t[i]
        count += 1
    n = normalizer(mode, x.shape[0], prod(x.shape[1:]), count)
    return loss / n, grad.reshape(x.shape) / n


def hinge_loss(x, labels, norm="L1"):
    num = x.shape[0]
    rows, grad = x.reshape(num, -1), np.zeros((num, prod(x.shape[1:])))
    loss = 0.0
    for i in range(num):
        for j in range(rows.shape[1]):
            sign = -1.0 if j == int(labels.ravel()[i]) else 1.0
            margin = max(0.0, 1 + sign * rows[i, j])
            loss += margin if norm == "L1" else margin**2
            grad[i, j] = sign * (np.sign(margin) if norm == "L1" else 2 * margin) / num
    return loss / num, grad.reshape(x.shape)


def contrastive_loss(a, b, labels, margin=1.0, legacy=False):
    num, loss = a.shape[0], 0.0
    x, y = a.reshape(num, -1), b.reshape(num, -1)
    grad = np.zeros(x.shape)
    for i in range(num):
        diff = x[i] - y[i]
        square = float((diff**2).sum())
        if int(labels.ravel()[i]):
            loss += square
            grad[i] = diff / num
        elif legacy:
            loss += max(margin - square, 0.0)
            grad[i] = -diff / num if margin > square else 0
        else:
            d = sqrt(square)
            loss += max(margin - d, 0.0) ** 2
            grad[i] = -(margin - d) / (d + 1e-4) * diff / num if margin > d else 0
    return loss / num / 2, grad.reshape(a.shape), -grad.reshape(b.shape)


def multinomial_loss(x, labels):
    num = x.shape[0]
    rows, grad, loss = x.reshape(num, -1), np.zeros((num, prod(x.shape[1:]))), 0.0
    for i in range(num):
        label = int(labels.ravel()[i])
        p = max(rows[i, label], 1e-20)
        loss -= log(p)
        grad[i, label] = -1 / p / num
    return loss / num, grad.reshape(x.shape)


def accuracy(x, labels, top_k=1, axis=1, ignore=None):
    outer, classes, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    scores, flat = x.reshape(outer, classes, inner), labels.reshape(outer, inner)
    right, total = np.zeros(classes), np.zeros(classes)
    for i in range(outer):
        for j in range(inner):
            label = int(flat[i, j])
            if label == ignore:
                continue
            total[label] += 1
            right[label] += (scores[i, :, j] >= scores[i, label, j]).sum() - 1 < top_k
    per_class = np.divide(right, total, out=np.zeros(classes), where=total > 0)
    return (right.sum() / total.sum() if total.sum() else 0.0), per_class
