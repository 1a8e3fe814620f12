from __future__ import annotations
import json
from dataclasses import dataclass
from functools import cache
from .index import Index
@dataclass(frozen=True, slots=True)
class Fate:
    old: str; kind: str; new: str|None; advice: str; difference: str; scope: str; gone_in: str
class Curated:
    def __init__(self):
        self.d={e['old']:e for e in json.load(open('/work/shared/facts/names.json'))}
        self.index=Index.load()
    @classmethod
    @cache
    def load(cls): return cls()
    def fate(self, dotted, target, attention='vllm'):
        e=self.d.get(dotted)
        if not e: return None
        for t in ('0.32.0','0.16.0','0.10.0'):
            new=e['new'].get(t)
            if new and self.index.resolve(new,target).found: break
        else: new=None
        if new==dotted: return None
        kind='gone' if not new else 'contract' if e['action']=='manual' else 'moved'
        return Fate(dotted,kind,new,e['note'],'differs: '+e['note'] if kind=='contract' else '',e['scope'],e['gone_in'] or '')
    def advice_for(self, dotted, target): return ''
